/*
 * The rest of the words, for engines that do one thing after the other: a
 * work-group a tile, and lists of products made in turn, so that a program
 * holds one loop over them and the engine's inner loop once (an engine with
 * registers to fill unrolls it). What is started is done.
 */
#define ENGINE_IS_CAREFUL_APART 0
#define ENGINE_LOOKS_AHEAD 0
#ifndef LAZY_RISE
#define BASE_BELOW 0
#define LAZY_RISE 0
#endif

#define FOR_EACH_TILE(function, a, tiles)                                                                    \
    GROUP(g);                                                                                                \
    function(a, &g);                                                                                         \
    END_GROUP(g)

static inline void let_go(const group *g) {}

static inline void start_score_products(const group *g, const score_product *products, const int count)
{
    UNROLL_LIST_FOR (int n = 0; n < count; n++)
        multiply_scores(g, products[n].sum, products[n].outer, products[n].inner, products[n].adds);
}
static inline void finish_score_products(const group *g, const score_product *products, const int count) {}

static inline void start_value_products(const group *g, const value_product *products, const int count,
                                        const bool careful)
{
    UNROLL_LIST_FOR (int n = 0; n < count; n++) {
        const operand weights = hand_over(g, products[n].weights);
        multiply_values(g, products[n].output, products[n].dim_class, products[n].keep, weights,
                        products[n].rows, careful);
    }
}
static inline void finish_value_products(const group *g, const value_product *products, const int count) {}
