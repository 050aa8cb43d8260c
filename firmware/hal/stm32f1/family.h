/* STM32F103 (RM0008, PM0075): what the shared STM32 parts need to know. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include <stdint.h>

#include "board.h"
#include "usart_v1.h"

#define RCC_BASE    0x40021000u
#define RCC_APB2ENR (RCC_BASE + 0x18u)

#if MCT_BOARD_USART == 1
#define MCT_USART_BASE 0x40013800u
#define MCT_USART_IRQ  37u
#define MCT_USART_BIT  (1u << 14)
#endif

#define MCT_FLASH_UNIT     2u
#define MCT_FLASH_WRITABLE 1

#endif
