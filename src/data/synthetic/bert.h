/* Special tokens of the synthetic BERT corpus: ids of the public uncased vocabulary.
 *
 * What:    what the generator puts between words, for whoever reads its samples.
 * Flow:    bert.c writes them; tests look for them.
 * Owner:   nothing.
 * Extend:  the generator is registered in make.c, its structure is described in bert.c.
 */
#ifndef RP_DATA_SYNTHETIC_BERT_H
#define RP_DATA_SYNTHETIC_BERT_H

enum { RP_TOKEN_PAD = 0, RP_TOKEN_CLS = 101, RP_TOKEN_SEP = 102, RP_TOKEN_MASK = 103, RP_TOKEN_FIRST_WORD = 999 };

#endif
