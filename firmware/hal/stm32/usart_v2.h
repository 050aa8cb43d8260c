/* The USART of F7, H7 and L4: offsets of its registers. */
#ifndef MCT_USART_H
#define MCT_USART_H

#define USART_CR1_AT    0x00u
#define USART_CR1_UE    (1u << 0)
#define USART_BRR_AT    0x0Cu
#define USART_STATUS_AT 0x1Cu
#define USART_CLEAR_AT  0x20u /* an overrun is cleared by writing its bit here */
#define USART_READ_AT   0x24u
#define USART_WRITE_AT  0x28u

#endif
