/* Copies of a box of a matrix from global to shared memory by the asynchronous proxy (cp.async.bulk.tensor, UTMALDG).
 *
 * What:    the matrix and the box are those of a map that the driver made (tests/shim/tensor_map.h). Lines of the box
 *          are 128 bytes, swizzled: the piece of 16 bytes at an address is moved to address ^ (address / 128 % 8 * 16).
 *          What is outside of the matrix is zeros; the bytes that the mbarrier counts are always those of the whole
 *          box.
 * Flow:    issue -> the box is NaN -> a look at the mbarrier that finds it incomplete lands one copy, the newest first
 *          (SHIM_LATE=0: at once) -> the bytes are complete.
 * Found:   a map that no driver made; an mbarrier whose initialisation the proxy does not see; memory that was written
 *          without a fence of proxies (memory.c) or that others still use (races.c); a block that ends before its
 *          copies have landed.
 */
#include "tests/shim/tensor_map.h"
#include "tests/simt/simt.h"

#include <string.h>

#define LINE 128 /* bytes */
#define PIECE 16
#define NUMBERS 8 /* of a piece */

struct simt_tensor_copy {
    const struct simt_warp *w; /* that issued it */
    u32 pc, lane;
    struct shim_tensor_map map;
    u64 to, barrier;
    s32 x, y; /* the first number and line of the box */
};

static u64 piece_at(const struct simt_tensor_copy *c, u32 line, u32 piece)
{
    const u64 at = c->to + line * LINE + piece * PIECE;
    return at ^ (at >> 7 & 7) << 4;
}

static u32 lines_of(const struct simt_tensor_copy *c)
{
    return c->map.box[1];
}

/* Eight numbers of a line; outside of the matrix zeros. */
static void read_piece(const struct simt_tensor_copy *c, u32 line, u32 piece, u16 *out)
{
    const s64 y = (s64)c->y + line, x = (s64)c->x + NUMBERS * piece;
    const u64 first = c->map.from + (u64)y * c->map.pitch + (u64)x * sizeof *out;
    memset(out, 0, PIECE);
    if (y >= 0 && y < (s64)c->map.numbers[1] && x >= 0 && x + NUMBERS <= (s64)c->map.numbers[0] &&
        first % PIECE == 0) { /* most of them */
        memcpy(out, simt_global_at(c->w, c->pc, c->lane, first, PIECE, "copies from"), PIECE);
        simt_check_order(c->w, c->pc, c->lane, first, PIECE, READ, "copies from");
        return;
    }
    for (s64 i = 0; i < NUMBERS && y >= 0 && y < (s64)c->map.numbers[1]; i++) {
        const u64 from = c->map.from + (u64)y * c->map.pitch + (u64)(x + i) * sizeof *out;
        if (x + i < 0 || x + i >= (s64)c->map.numbers[0])
            continue;
        memcpy(&out[i], simt_global_at(c->w, c->pc, c->lane, from, sizeof *out, "copies from"), sizeof *out);
        simt_check_order(c->w, c->pc, c->lane, from, sizeof *out, READ, "copies from");
    }
}

static void land(const struct simt_tensor_copy *c)
{
    u16 piece[NUMBERS];
    for (u32 line = 0; line < lines_of(c); line++)
        for (u32 k = 0; k < LINE / PIECE; k++) {
            read_piece(c, line, k, piece);
            memcpy(simt_shared_at(c->w, c->pc, c->lane, piece_at(c, line, k), PIECE, BY_PROXY, "copies to"), piece,
                   PIECE);
        }
    simt_barrier_complete(c->w, c->pc, c->lane, c->barrier, lines_of(c) * LINE);
}

void simt_tensor_issue(const struct simt_warp *w, u32 pc, u32 lane, const void *map, u64 to, s32 x, s32 y, u64 barrier)
{
    struct simt_block *b = w->block;
    struct simt_tensor_copy c = {.w = w, .pc = pc, .lane = lane, .to = to, .barrier = barrier, .x = x, .y = y};
    memcpy(&c.map, map, sizeof c.map);
    if (c.map.magic != SHIM_TENSOR_MAP || c.map.box[0] * sizeof(u16) != LINE)
        simt_fault(w, pc, (int)lane, "copies by a map that the driver did not make, or not of lines of %d bytes", LINE);
    if (to % (8 * LINE))
        simt_fault(w, pc, (int)lane, "copies to %#llx of shared memory, within eight lines of its swizzle",
                   (unsigned long long)to);
    simt_barrier_check_proxy(w, pc, lane, barrier);
    for (u32 line = 0; line < lines_of(&c); line++)
        for (u32 k = 0; k < LINE / PIECE; k++)
            memset(simt_shared_at(w, pc, lane, piece_at(&c, line, k), PIECE, BY_PROXY, "copies to"), 0xff, PIECE);
    if (!shim_options.late) {
        land(&c);
        return;
    }
    if (b->tensor_copies == b->tensor_room) {
        b->tensor_room = b->tensor_room ? 2 * b->tensor_room : 16;
        b->tensor_copy = simt_grow(b->tensor_copy, (size_t)b->tensor_room * sizeof *b->tensor_copy);
    }
    b->tensor_copy[b->tensor_copies++] = c;
}

void simt_tensor_land(struct simt_block *b, u64 barrier)
{
    int k = b->tensor_copies - 1;
    while (k >= 0 && b->tensor_copy[k].barrier != barrier)
        k--;
    if (k < 0)
        return;
    const struct simt_tensor_copy c = b->tensor_copy[k];
    memmove(b->tensor_copy + k, b->tensor_copy + k + 1, (size_t)(b->tensor_copies - k - 1) * sizeof c);
    b->tensor_copies--;
    land(&c);
}

void simt_tensor_check_end(const struct simt_block *b)
{
    const struct simt_tensor_copy *c = b->tensor_copies ? &b->tensor_copy[0] : NULL;
    if (c)
        simt_fault(c->w, c->pc, (int)c->lane, "the block ended before this copy had landed");
}
