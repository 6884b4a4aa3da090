/* Attention's tiles and their layout in shared memory: shared by host and kernels.
 *
 * What:    constants and sizes; a block has 128 threads and 8 * rows queries, rows = 8, 4 or 2 queries of a thread. 256
 *          threads with twice as many queries would copy each tile half as often, which is 2 of 100 instructions of a
 *          main loop, and leave one block on a multiprocessor, with nothing to do while it waits.
 * Flow:    needs.c refuses what no kernel has room for, and plans the workspace: slabs of a forward stream, D and the
 *          strips of pd and ds backward. ops_attention.c chooses a kernel with `rows` (all scores of a query, or a
 *          head, in the shared memory of a block; or streams), and for streams what the workspace holds at a time.
 *          attention.cu, attention_backward.cu, attention_stream.cu and attention_stream_backward.cu divide the shared
 *          memory of the launch.
 * Extend:  another number of rows is a kernel in kernels.def and an entry in the lists of ops_attention.c.
 *
 * Probabilities lie in squares of 64 keys. Pitches: 16-byte reads by lanes of neighbouring rows meet no bank twice when
 * pitch / 4 is odd (20, 68), or even but not a multiple of 4 where a warp reads 4 rows at a time (72); the latter also
 * spreads single floats of 4 rows x 8 columns over all banks.
 */
#pragma once

#define RP_ATT_THREADS 128
#define RP_ATT_DIM 64         /* columns of a head taken at a time */
#define RP_ATT_KEYS 64        /* keys of a tile of scores */
#define RP_ATT_STEP 16        /* columns of keys, or rows of values, per stage of the forward pass */
#define RP_ATT_STAGES 3
#define RP_ATT_TILE_PITCH (RP_ATT_DIM + 4)
#define RP_ATT_STEP_PITCH (RP_ATT_STEP + 4)
#define RP_ATT_STAGE (RP_ATT_KEYS * RP_ATT_STEP_PITCH)
#define RP_ATT_SQUARE_PITCH (RP_ATT_KEYS + 8)
#define RP_ATT_QUERIES(rows) (8 * (rows))

/* of one row of decisions, in bits, and of probabilities, in floats */
#define RP_ATT_PADDED(seq) (((seq) + 127) / 128 * 128)

/* Bytes. Forward: probabilities, queries, stages, key mask. */
#define RP_ATT_FORWARD_SHARED(rows, seq)                                                                               \
    ((RP_ATT_QUERIES(rows) * (RP_ATT_PADDED(seq) / RP_ATT_KEYS * RP_ATT_SQUARE_PITCH + RP_ATT_TILE_PITCH) +            \
      RP_ATT_STAGES * RP_ATT_STAGE) * 4 + RP_ATT_PADDED(seq))
/* Backward: keys and values, queries and their gradients, a square of probabilities, four words of each query, its D
 * and first key. */
#define RP_ATT_BACKWARD_SHARED(rows)                                                                                   \
    ((2 * (RP_ATT_KEYS + RP_ATT_QUERIES(rows)) * RP_ATT_TILE_PITCH +                                                   \
      RP_ATT_QUERIES(rows) * (RP_ATT_SQUARE_PITCH + 6)) * 4)

/* Forward in streams: blocks of a multiprocessor, which registers allow (kernels.def has the same number, which
 * ops_attention.c asserts); bytes of a tile of scores in a slab, see attention_stream.cu. */
#define RP_ATT_STREAM_BLOCKS 2
#define RP_ATT_TILE_BYTES(rows) ((size_t)RP_ATT_QUERIES(rows) * RP_ATT_KEYS * 4)
/* Streams, of heads with `columns` in blocks of 8 * rows own rows; W: columns of a thread for a product, see
 * attention_stream.cuh. */
#define RP_ATT_STREAM_W(columns) ((columns) <= 64 ? 4 : (columns) <= 96 ? 6 : 8)
#define RP_ATT_STREAM_STAGE(W) ((W) * 16 * RP_ATT_STEP > RP_ATT_STAGE ? (W) * 16 * RP_ATT_STEP : RP_ATT_STAGE)
/* Bytes. Forward: own rows, a square, four words for each of up to 64 rows, stages. */
#define RP_ATT_STREAM_SHARED(rows, columns)                                                                            \
    ((RP_ATT_QUERIES(rows) * (RP_ATT_OWN_PITCH(columns) + RP_ATT_SQUARE_PITCH) + 4 * RP_ATT_KEYS +                     \
      RP_ATT_STAGES * RP_ATT_STREAM_STAGE(RP_ATT_STREAM_W(columns))) * 4)
#define RP_ATT_OWN_PITCH(columns) (((columns) + 15) / 16 * 16 + 4)
/* Gradients of 64 keys: keys and values, two sets of six words for each of 64 queries, stages. */
#define RP_ATT_GRADIENTS_SHARED(columns)                                                                               \
    ((2 * RP_ATT_QUERIES(8) * RP_ATT_OWN_PITCH(columns) + 2 * 6 * RP_ATT_KEYS + RP_ATT_STAGES * RP_ATT_STAGE) * 4)
/* Products with them of 64 keys or queries: stages. */
#define RP_ATT_PRODUCTS_SHARED(columns)                                                                                \
    (RP_ATT_STAGES * (RP_ATT_STAGE + RP_ATT_STEP * 16 * RP_ATT_STREAM_W(columns)) * 4)
