/* The values of a difference between two captures as words. */
#include "capture/env_show.h"

#include "base/json.h"
#include "base/text.h"
#include "capture/env_diff.h"
#include "capture/value.h"

#include <string.h>

static void show_words(struct rp_buf *out, const json_t *list)
{
    size_t i;
    json_t *word;
    if (json_array_size(list) == 0)
        rp_buf_puts(out, "(none)");
    json_array_foreach((json_t *)list, i, word)
        rp_buf_printf(out, "%s%s", i ? " " : "", json_is_string(word) ? json_string_value(word) : "?");
}

/* The cells of a row that differ: "GPU3 NV1, GPU4 NV2". */
static void show_cells(struct rp_buf *out, const struct rp_difference *d, int of_b)
{
    for (int64_t i = 0; i < d->cells_n; i++)
        rp_buf_printf(out, "%s%s %s", i ? ", " : "", d->cells[i].to, of_b ? d->cells[i].b : d->cells[i].a);
}

/* One side of a difference on one line, of any length. `exact`: with every digit. */
static void show_side(struct rp_buf *out, const json_t *side, int exact)
{
    static const char *const scaled[] = {"B", "Hz", "MHz", "bit/s"};
    const struct rp_leaf leaf = rp_leaf(side);
    const json_t *v = leaf.value;
    char number[32];
    if (!json_is_object(side))
        rp_buf_puts(out, "(not there)");
    else if (leaf.kind == RP_LEAF_GROUP)
        rp_buf_printf(out, "(%lld value%s)", (long long)leaf.values, rp_s(leaf.values));
    else if (leaf.kind != RP_LEAF_KNOWN)
        rp_buf_printf(out, "(%s)", leaf.state);
    else if (json_is_array(v))
        show_words(out, v);
    else if (json_is_string(v))
        rp_buf_puts(out, *json_string_value(v) ? json_string_value(v) : "(empty)");
    else if (!exact && RP_IS_IN(scaled, leaf.unit, strlen(leaf.unit))) {
        rp_show_number(number, json_number_value(v), leaf.unit);
        rp_buf_puts(out, number);
    } else {
        if (json_is_integer(v))
            rp_buf_printf(out, "%lld", (long long)json_integer_value(v));
        else
            rp_buf_printf(out, "%.9g", json_number_value(v));
        rp_buf_printf(out, "%s%s", *leaf.unit ? " " : "", leaf.unit);
    }
}

void rp_capture_show_sides(struct rp_buf text[2], const struct rp_difference *d)
{
    const json_t *const sides[] = {d->a, d->b};
    const int is_row = strncmp(d->field, "topology.matrix.", 16) == 0;
    for (int exact = 0; exact < 2; exact++) { /* with every digit where the texts would be the same */
        if (exact && strcmp(rp_buf_text(&text[0]), rp_buf_text(&text[1])) != 0)
            break;
        for (int i = 0; i < 2; i++) {
            RP_JSON *rest = is_row ? NULL : rp_capture_only_here(rp_leaf(sides[i]).value, rp_leaf(sides[1 - i]).value);
            text[i].size = 0;
            if (d->cells_n)
                show_cells(&text[i], d, i);
            else if (rest && !json_array_size(rest))
                rp_buf_puts(&text[i], "(nothing of its own)");
            else if (rest) {
                rp_buf_puts(&text[i], "only here: ");
                show_words(&text[i], rest);
            } else
                show_side(&text[i], sides[i], exact);
        }
    }
}
