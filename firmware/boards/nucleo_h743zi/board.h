/* NUCLEO-H743ZI; the USART of the ST-Link: names and clocks; sizes are in the board table of the
 * host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "nucleo_h743zi"
#define MCT_BOARD_BAUD     115200u
#define MCT_BOARD_USART    3
#define MCT_USART_FUNCTION 7u
#define MCT_TX_PORT        3u /* PD8 */
#define MCT_TX_PIN         8u
#define MCT_RX_PORT        3u /* PD9 */
#define MCT_RX_PIN         9u
#define MCT_PLL_M          10u
#define MCT_PLL_N          125u
#define MCT_PLL_P          2u
#define MCT_FLASH_WAITS    2u

#endif
