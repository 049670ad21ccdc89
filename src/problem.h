/* Limits of a problem that more than one file must know. */
#ifndef CLATTN_PROBLEM_H
#define CLATTN_PROBLEM_H

/* Rows of queries or keys: positions, and twice their sum, stay within an int on the device. */
#define CLATTN_MAX_ROWS (INT64_C(1) << 28)

#endif
