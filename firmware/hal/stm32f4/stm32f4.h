/* The registers of the STM32F405 that this HAL touches (reference manual RM0090). */
#ifndef MCT_STM32F4_H
#define MCT_STM32F4_H

#include "cortexm.h"

#define RCC_AHB1ENR        MCT_REG32(0x40023830u)
#define RCC_AHB1ENR_GPIOA  (1u << 0)
#define RCC_APB1ENR        MCT_REG32(0x40023840u)
#define RCC_APB1ENR_TIM2   (1u << 0)
#define RCC_APB2ENR        MCT_REG32(0x40023844u)
#define RCC_APB2ENR_USART1 (1u << 4)

#define GPIOA_MODER    MCT_REG32(0x40020000u)
#define GPIOA_PUPDR    MCT_REG32(0x4002000Cu)
#define GPIOA_AFRH     MCT_REG32(0x40020024u)
#define GPIO_ALTERNATE 2u
#define GPIO_PULL_UP   1u
#define GPIO_AF_USART1 7u
#define GPIO_PIN_TX    9u  /* PA9 */
#define GPIO_PIN_RX    10u /* PA10 */

#define USART1_SR        MCT_REG32(0x40011000u)
#define USART_SR_ORE     (1u << 3)
#define USART_SR_RXNE    (1u << 5)
#define USART_SR_TXE     (1u << 7)
#define USART1_DR        MCT_REG32(0x40011004u)
#define USART1_BRR       MCT_REG32(0x40011008u)
#define USART1_CR1       MCT_REG32(0x4001100Cu)
#define USART_CR1_RE     (1u << 2)
#define USART_CR1_TE     (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)
#define USART_CR1_UE     (1u << 13)
#define USART1_IRQ       37u
#define STM32F405_IRQS   82u

#define TIM2_CR1    MCT_REG32(0x40000000u)
#define TIM_CR1_CEN 1u
#define TIM2_EGR    MCT_REG32(0x40000014u)
#define TIM_EGR_UG  1u
#define TIM2_CNT    MCT_REG32(0x40000024u)
#define TIM2_PSC    MCT_REG32(0x40000028u)
#define TIM2_ARR    MCT_REG32(0x4000002Cu)

#endif
