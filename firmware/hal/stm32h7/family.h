/* STM32H743 (RM0433): what the shared STM32 parts need to know. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include <stdint.h>

#include "board.h"
#include "usart_v2.h"

#define RCC_BASE      0x58024400u
#define MCT_GPIO_BASE 0x58020000u
#define MCT_GPIO_ENR  (RCC_BASE + 0xE0u) /* AHB4; bit: port, A is 0 */

#if MCT_BOARD_USART == 3
#define MCT_USART_BASE 0x40004800u
#define MCT_USART_IRQ  39u
#define MCT_USART_ENR  (RCC_BASE + 0xE8u) /* APB1L */
#define MCT_USART_BIT  (1u << 18)
#endif

#define MCT_FLASH_UNIT     32u /* a flash word */
#define MCT_FLASH_WRITABLE 1

#endif
