/* The USART of F1 and F4: offsets of its registers. */
#ifndef MCT_USART_H
#define MCT_USART_H

#define USART_STATUS_AT 0x00u
#define USART_READ_AT   0x04u /* reading the status, then this, clears what the status said */
#define USART_WRITE_AT  0x04u
#define USART_BRR_AT    0x08u
#define USART_CR1_AT    0x0Cu
#define USART_CR1_UE    (1u << 13)

#endif
