/* NUCLEO-F446RE; the USART of the ST-Link: names and clocks; sizes are in the board table of the
 * host. */
#ifndef MCT_BOARD_H
#define MCT_BOARD_H

#define MCT_BOARD_NAME     "nucleo_f446re"
#define MCT_BOARD_BAUD     115200u
#define MCT_BOARD_USART    2
#define MCT_USART_FUNCTION 7u
#define MCT_TX_PORT        0u /* PA2 */
#define MCT_TX_PIN         2u
#define MCT_RX_PORT        0u /* PA3 */
#define MCT_RX_PIN         3u
#define MCT_PLL_M          8u
#define MCT_PLL_N          180u
#define MCT_PLL_P          2u
#define MCT_PLL_Q          8u
#define MCT_FLASH_WAITS    5u
#define MCT_OVERDRIVE      1

#endif
