/*
 * What a call into the kernels or the executor may answer. 0 is success; the host maps every other
 * value to a text, so values are never reused. Kernels give -1 to -9, the executor -10 and below.
 */
#ifndef MCT_STATUS_H
#define MCT_STATUS_H

typedef enum {
    MCT_OK = 0,
    MCT_ERR_NOT_FINITE = -1, /* a logit or an error of the classifier is infinite or not a number */

    /* the block of memory and calls of the executor */
    MCT_ERR_ALIGNMENT = -10,   /* image or block does not start on a multiple of 4 */
    MCT_ERR_MEMORY = -11,      /* the block is absent or smaller than state and arena */
    MCT_ERR_LABEL = -12,       /* label >= classes */
    MCT_ERR_RATE = -13,        /* a learning rate or loss limit is negative or not finite */
    MCT_ERR_NO_TRAINING = -14, /* the image has no backward program */
    MCT_ERR_SAMPLE = -15,      /* more bytes than a sample has, or a run without a whole one */
    MCT_ERR_CANARY = -16,      /* index: instruction, detail: tensor; a kernel wrote beside it */

    /* an image is refused; the place is in mct_image_error */
    MCT_ERR_SIZE = -20,      /* bytes given, bytes in the header */
    MCT_ERR_MAGIC = -21,     /* no image */
    MCT_ERR_VERSION = -22,   /* format version or header size is not this executor's */
    MCT_ERR_CRC = -23,       /* damaged */
    MCT_ERR_HEADER = -24,    /* index: offset of the header field */
    MCT_ERR_TENSOR = -25,    /* index: tensor; a field or place that cannot be */
    MCT_ERR_STATE = -26,     /* index, detail: two tensors of the state share bytes */
    MCT_ERR_OP = -27,        /* index: instruction, as in what follows; op is unknown */
    MCT_ERR_UNUSED = -28,    /* an unused slot, parameter or field is not empty */
    MCT_ERR_SLOT = -29,      /* detail: slot; tensor absent, of a wrong dtype or space */
    MCT_ERR_SHAPE = -30,     /* detail: slot; shape does not fit the others */
    MCT_ERR_PARAMETER = -31, /* detail: parameter; out of range */
    MCT_ERR_TABLE = -32,     /* detail: slot; a constant in a table is out of range */
    MCT_ERR_WEIGHT = -33,    /* detail: slot; a weight is -128 */
    MCT_ERR_BOUND = -34,     /* detail: channel; an accumulator could overflow */
    MCT_ERR_OVERLAP = -35,   /* detail: slot; it shares bytes with another operand */
    MCT_ERR_UNWRITTEN = -36, /* detail: slot; it is read, but other bytes lie there */
    MCT_ERR_ORDER = -37,     /* the instruction cannot stand here */
    MCT_ERR_SEGMENT = -38,   /* detail: step of its order; a row is not there when it is read */
} mct_status;

#endif
