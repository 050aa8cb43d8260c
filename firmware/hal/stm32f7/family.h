/* STM32F746 (RM0385): what the shared STM32 parts need to know. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include <stdint.h>

#include "board.h"
#include "usart_v2.h"

#define RCC_BASE      0x40023800u
#define RCC_APB1ENR   (RCC_BASE + 0x40u)
#define MCT_GPIO_BASE 0x40020000u
#define MCT_GPIO_ENR  (RCC_BASE + 0x30u) /* bit: port, A is 0 */

#if MCT_BOARD_USART == 1
#define MCT_USART_BASE 0x40011000u
#define MCT_USART_IRQ  37u
#define MCT_USART_ENR  (RCC_BASE + 0x44u) /* APB2 */
#define MCT_USART_BIT  (1u << 4)
#endif

#define MCT_FLASH_UNIT         4u
#define MCT_FLASH_WRITABLE     1
#define MCT_FLASH_SMALL_SECTOR 0x8000u

/* Throws away what the caches hold of flash: it may have been erased or programmed since. */
void mct_flash_forget(void);

#endif
