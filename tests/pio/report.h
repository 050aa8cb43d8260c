/* How a test tells its results: lines "name: passed" or "name: FAILED", and at the end "done". */
#ifndef REPORT_H
#define REPORT_H

#include <string.h>

#if defined(__arm__)
#include "hal.h"

static void report_line(const char *text)
{
    mct_hal_tx((const uint8_t *)text, strlen(text));
}

/* Semihosting: the emulator ends with this exit code. */
static void report_exit(int code)
{
    const uint32_t block[2] = {0x20026u, (uint32_t)code};
    register uint32_t r0 __asm("r0") = 0x20u;
    register const uint32_t *r1 __asm("r1") = block;

    __asm volatile("bkpt 0xAB" : : "r"(r0), "r"(r1) : "memory");
}

#define report_start mct_hal_init
#else
#include <stdlib.h>
#include <unistd.h>

static void report_line(const char *text)
{
    (void)!write(STDOUT_FILENO, text, strlen(text));
}

static void report_exit(int code)
{
    exit(code);
}

static void report_start(void)
{
}
#endif

static int report_failures;

static void report(const char *name, int passed)
{
    report_failures += !passed;
    report_line(name);
    report_line(passed ? ": passed\n" : ": FAILED\n");
}

static int report_end(void)
{
    report_line("done\n");
    report_exit(report_failures != 0);
    return report_failures != 0;
}

#endif
