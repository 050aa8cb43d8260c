/* Arm MPS3 with image AN547: names and clocks; sizes are in the board table of the host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "mps3-an547"
#define MCT_BOARD_CLOCK_HZ 25000000u
#define MCT_BOARD_BAUD     115200u

#endif
