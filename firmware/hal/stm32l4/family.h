/* STM32L476 (RM0351): what the shared STM32 parts need to know. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include <stdint.h>

#include "board.h"
#include "usart_v2.h"

#define RCC_BASE      0x40021000u
#define MCT_GPIO_BASE 0x48000000u
#define MCT_GPIO_ENR  (RCC_BASE + 0x4Cu) /* AHB2; bit: port, A is 0 */

#if MCT_BOARD_USART == 2
#define MCT_USART_BASE 0x40004400u
#define MCT_USART_IRQ  38u
#define MCT_USART_ENR  (RCC_BASE + 0x58u) /* APB1 */
#define MCT_USART_BIT  (1u << 17)
#endif

#define MCT_FLASH_UNIT     8u /* a double word */
#define MCT_FLASH_WRITABLE 1

/* Two wrong bits in a double word of flash come as this exception. */
#define MCT_NMI_HANDLER mct_nmi_handler
void mct_nmi_handler(void);

#endif
