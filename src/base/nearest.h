/* "Did you mean": the nearest of some names by edit distance.
 *
 * What:    one distance and the best candidate so far.     Flow: word, then every name of a table -> nearest or NULL.
 * Owner:   texts are borrowed.                              Extend: nothing to add; every table offers its own names.
 */
#ifndef RP_BASE_NEAREST_H
#define RP_BASE_NEAREST_H

struct rp_nearest {
    const char *word, *best; /* best: NULL while nothing is close */
    int distance;
};

/* Insertions, deletions, replacements and swaps of neighbours; letter case costs nothing. */
int rp_edit_distance(const char *a, const char *b);
/* Start with {.word = w}. A name counts as close when about a third of its letters differ, or when word is its beginning. */
void rp_nearest_try(struct rp_nearest *n, const char *name);

#endif
