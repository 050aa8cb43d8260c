/*
 * What a call into the kernels or the executor may answer. 0 is success; the host maps every other
 * value to a text, so values are never reused. Kernels give -1 to -9, the executor -10 and below.
 */
#ifndef MCT_STATUS_H
#define MCT_STATUS_H

typedef enum {
    MCT_OK = 0,
    MCT_ERR_NOT_FINITE = -1, /* a logit or an error of the classifier is infinite or not a number */
} mct_status;

#endif
