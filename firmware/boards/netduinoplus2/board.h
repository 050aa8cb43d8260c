/* Netduino Plus 2 (STM32F405): names and clocks; sizes are in the board table of the host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "netduinoplus2"
#define MCT_BOARD_CLOCK_HZ 16000000u /* internal oscillator, the chip's clock after reset */
#define MCT_BOARD_BAUD     115200u

#endif
