/* STM32F405 (RM0090) and STM32F446 (RM0390): what the shared STM32 parts need to know. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include <stdint.h>

#include "board.h"
#include "usart_v1.h"

#define RCC_BASE         0x40023800u
#define RCC_APB1ENR      (RCC_BASE + 0x40u)
#define RCC_APB1ENR_TIM2 (1u << 0)
#define MCT_GPIO_BASE    0x40020000u
#define MCT_GPIO_ENR     (RCC_BASE + 0x30u) /* bit: port, A is 0 */

#if MCT_BOARD_USART == 1
#define MCT_USART_BASE 0x40011000u
#define MCT_USART_IRQ  37u
#define MCT_USART_ENR  (RCC_BASE + 0x44u) /* APB2 */
#define MCT_USART_BIT  (1u << 4)
#elif MCT_BOARD_USART == 2
#define MCT_USART_BASE 0x40004400u
#define MCT_USART_IRQ  38u
#define MCT_USART_ENR  RCC_APB1ENR
#define MCT_USART_BIT  (1u << 17)
#endif

/* The emulator has no cycle counter: TIM2, which has 32 bits, takes its place. */
#define MCT_COUNTER_FALLBACK
void mct_counter_start(void);
uint32_t mct_counter_read(void);

#define MCT_FLASH_UNIT         4u
#define MCT_FLASH_WRITABLE     1
#define MCT_FLASH_SMALL_SECTOR 0x4000u

/* Throws away what the flash interface has cached: it may have been erased or programmed since. */
void mct_flash_forget(void);

#endif
