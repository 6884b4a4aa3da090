/* "Did you mean": the nearest of some names by edit distance.
 *
 * Flow:    a word, then every name of a table -> the nearest name or NULL. Texts are borrowed.
 */
#pragma once

struct rp_nearest {
    const char *word, *best; /* best: NULL while nothing is close */
    int distance;
    int begins; /* best begins with word */
};

/* Insertions, deletions, replacements and swaps of neighbours; letter case costs nothing. */
int rp_edit_distance(const char *a, const char *b);
/* Start with {.word = w}. A name counts as close when about a third of its letters differ, or when word is its
 * beginning: the shortest such name. */
void rp_nearest_try(struct rp_nearest *n, const char *name);
