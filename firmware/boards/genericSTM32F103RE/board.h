/* A board with an STM32F103RE and an 8 MHz crystal: names and clocks; sizes are in the board table
 * of the host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME  "genericSTM32F103RE"
#define MCT_BOARD_BAUD  115200u
#define MCT_BOARD_USART 1
#define MCT_PLL_N       9u
#define MCT_FLASH_WAITS 2u

#endif
