/* Shared by the tests that train ResNet without files: images of noise, and an opened trainer from the text of a
 * recipe.
 *
 * What:    noise_format, whose sample i has pixels from a generator that begins at i and label i mod 7;
 *          noise_train_open().
 * Owner:   the test closes what it opens: noise_train_close().
 */
#pragma once

#include "tests/unit/train_fixture.h"

FIXTURE struct rp_dataset *noise_open(const char *path, const struct rp_sample_field *field, int fields,
                                      const struct rp_data_opts *o, struct rp_err *err);

FIXTURE void noise_close(struct rp_dataset *d)
{
    free(d);
}

struct noise {
    struct rp_dataset set;
    int64_t pixels;
    int image; /* which row; the other is the label */
};

FIXTURE int noise_get(struct rp_dataset *d, int64_t sample, void *const *row, struct rp_err *err)
{
    const struct noise *s = (struct noise *)d;
    uint8_t *image = row[s->image];
    (void)err;
    sample_state = (uint32_t)sample;
    for (int64_t i = 0; i < s->pixels; i++)
        image[i] = (uint8_t)sample_below(256);
    *(int32_t *)row[!s->image] = (int32_t)(sample % 7);
    return 0;
}

static const struct rp_data_format noise_format = {
    .name = "noise", .open = noise_open, .close = noise_close, .get = noise_get};

FIXTURE struct rp_dataset *noise_open(const char *path, const struct rp_sample_field *field, int fields,
                                      const struct rp_data_opts *o, struct rp_err *err)
{
    struct noise *s = rp_alloc(sizeof *s);
    (void)path, (void)fields, (void)o, (void)err;
    s->set.format = &noise_format;
    s->image = strcmp(field[0].name, "image") != 0;
    s->pixels = field[s->image].count;
    return &s->set;
}

struct noise_train {
    struct rp_recipe recipe;
    struct rp_plan plan;
    struct rp_dev *dev;
    struct rp_train *t; /* NULL: *err says why */
};

FIXTURE void noise_train_open(struct noise_train *n, const char *yaml, struct rp_err *err)
{
    *n = (struct noise_train){.t = NULL};
    *err = (struct rp_err){0};
    if (rp_recipe_parse(&n->recipe, yaml, strlen(yaml), "noise.yaml", NULL, NULL, 0, err) < 0)
        return;
    n->dev = fixture_device("reference", 1, 1, 1);
    if (rp_train_size(&n->plan, &n->recipe, NULL, n->dev->backend, &(struct rp_device_opts){0}, err) == 0)
        n->t = rp_train_open(
            &(struct rp_train_opts){.recipe = &n->recipe, .plan = &n->plan, .dev = n->dev, .format = &noise_format},
            err);
}

FIXTURE void noise_train_close(struct noise_train *n)
{
    rp_train_close(n->t);
    fixture_close(n->dev);
    rp_recipe_fini(&n->recipe);
}
