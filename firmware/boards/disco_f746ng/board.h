/* 32F746GDISCOVERY; the USART of the ST-Link: names and clocks; sizes are in the board table of the
 * host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "disco_f746ng"
#define MCT_BOARD_BAUD     115200u
#define MCT_BOARD_USART    1
#define MCT_USART_FUNCTION 7u
#define MCT_TX_PORT        0u /* PA9 */
#define MCT_TX_PIN         9u
#define MCT_RX_PORT        1u /* PB7 */
#define MCT_RX_PIN         7u
#define MCT_PLL_M          8u
#define MCT_PLL_N          216u
#define MCT_PLL_P          2u
#define MCT_PLL_Q          9u
#define MCT_FLASH_WAITS    7u

#endif
