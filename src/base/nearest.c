#include "base/nearest.h"

#include <string.h>

#define WORD_MAX 63

static int lower_case(char c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

static int min2(int a, int b)
{
    return a < b ? a : b;
}

int rp_edit_distance(const char *a, const char *b)
{
    int d[3][WORD_MAX + 1]; /* rows i-2, i-1 and i of the table, in turn */
    int n = (int)strnlen(a, WORD_MAX), m = (int)strnlen(b, WORD_MAX);
    for (int j = 0; j <= m; j++)
        d[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int same = lower_case(a[i - 1]) == lower_case(b[j - 1]);
            row[j] = min2(min2(up[j] + 1, row[j - 1] + 1), up[j - 1] + !same);
            if (i > 1 && j > 1 && lower_case(a[i - 1]) == lower_case(b[j - 2]) &&
                lower_case(a[i - 2]) == lower_case(b[j - 1]))
                row[j] = min2(row[j], up2[j - 2] + 1);
        }
    }
    return d[n % 3][m];
}

void rp_nearest_try(struct rp_nearest *n, const char *name)
{
    int length = (int)strlen(n->word), distance = rp_edit_distance(n->word, name), limit = 1 + (int)strlen(name) / 4;
    const int begins = length >= 3 && strncmp(n->word, name, (size_t)length) == 0;
    if (begins && n->begins && strlen(name) < strlen(n->best)) /* "bert" is rather bert_fp32 than bert_adam_fp32 */
        n->best = name;
    if (begins)
        distance = 1;
    if (distance > limit || distance >= length || (n->best && distance >= n->distance))
        return;
    n->best = name;
    n->distance = distance;
    n->begins = begins;
}
