/* What an algorithm asks an engine to multiply, a list at a time. */

/* sum = or += outer inner^T */
typedef struct {
    lanes *sum; /* SCORES */
    const held *outer;
    const view *inner;
    bool adds; /* false: the first of the products that make the sum */
} score_product;

/* output = keep output + weights rows. In a list, products with the same weights or the same rows are neighbours: an
 * engine may keep what it made of them. */
typedef struct {
    lanes *output; /* OUTPUTS(dim_class) */
    int dim_class;
    const lanes *keep;    /* OUTER_SLOTS, or 0 for 1 */
    const lanes *weights; /* SCORES */
    const view *rows;
} value_product;
