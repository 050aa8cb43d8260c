/* NUCLEO-L476RG; the USART of the ST-Link: names and clocks; sizes are in the board table of the
 * host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "nucleo_l476rg"
#define MCT_BOARD_BAUD     115200u
#define MCT_BOARD_USART    2
#define MCT_USART_FUNCTION 7u
#define MCT_TX_PORT        0u /* PA2 */
#define MCT_TX_PIN         2u
#define MCT_RX_PORT        0u /* PA3 */
#define MCT_RX_PIN         3u
#define MCT_PLL_M          2u
#define MCT_PLL_N          20u
#define MCT_PLL_R          2u
#define MCT_FLASH_WAITS    4u

#endif
