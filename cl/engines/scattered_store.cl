/* Engine word store_rows for engines whose lanes are single numbers: each output goes where it belongs by itself. */
static inline void store_rows(const group *g, const target *to, const lanes *output, const int dim_class,
                              const real factor)
{
    FOR_EACH_OUTPUT (g, e, slot, d, dim_class) {
        const int row = outer_row(g, slot);
        if (row < to->rows && d < to->dims) {
            if (to->full)
                to->full[row * to->stride + d] = factor * output[e];
            else
                STORE_OUT(factor * output[e], to->rounded + row * to->stride + d);
        }
    }
}
