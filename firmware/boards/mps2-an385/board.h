/* Arm MPS2 with image AN385: names and clocks; sizes are in the board table of the host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "mps2-an385"
#define MCT_BOARD_CLOCK_HZ 25000000u
#define MCT_BOARD_BAUD     115200u

#endif
