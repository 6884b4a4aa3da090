/* Attacks on the records and figures of a bundle of images: what they count, the parts of their loss, the unit of their
 * throughput. */
#include "tests/unit/attack.h"

#include "optim/optim.h"

#define STEPS "steps/rank0.jsonl"
#define FACTS "facts.json"
#define RUN "run.json"

static const char recipe[] = "workload: resnet50\n"
                             "title: tiny\n"
                             "model: {width: 4, blocks: '1,1,1,1', num_classes: 10}\n"
                             "task: {image_size: 32}\n"
                             "train: {batch_size: 4}\n"
                             "data: {format: imagenet_tfrecord, archive: s.tar.zst, sha256: \"" FX_ROOT "\"}\n"
                             "measure: {warmup_steps: 1, timed_steps: 3, repeats: 2}\n";

/* Steps as fx_records() has them, of images: a loss of guessing one of 10 classes, one image in four correct. */
static void put_steps(struct fx *x)
{
    const struct rp_optim o = rp_schedule_of(&x->recipe);
    int64_t now = 5000000000;
    rp_buf_fini(&x->steps);
    rp_buf_puts(&x->steps,
                "{\"phase\":\"init\",\"rank\":0,\"root_ns\":1000000,\"state_root\":\"" FX_ROOT "\",\"step\":-1}\n");
    for (int i = 0; i < 7; i++) {
        int64_t ns = 100000000 + 1000003 * ((i % 7) * (i % 7) % 7);
        rp_buf_printf(&x->steps,
                      "{\"counters\":{\"correct\":1,\"images\":4},\"end_ns\":%lld,\"grad_norm\":\"0x1.%dp+1\",\"input_"
                      "ns\":0,\"learning_rate\":%.17g,"
                      "\"loss\":\"0x1.28p+1\",\"loss_parts\":{\"cross_entropy\":\"0x1.28p+1\",\"weight_decay\":\"0x0p+"
                      "0\"},\"phase\":\"%s\","
                      "\"rank\":0,\"repeat\":%d,%s\"samples\":4,\"start_ns\":%lld,%s\"step\":%d}\n",
                      (long long)(now + ns), i + 1, rp_learning_rate(&o, i + 1), i ? "timed" : "warm-up",
                      i ? (i - 1) / 3 : 0, i == 6 ? "\"root_ns\":2000000," : "", (long long)now,
                      i == 6 ? "\"state_root\":\"" FX_ROOT "\"," : "", i);
        now += ns + 1000000;
    }
}

/* An honest run with settings of a command line. */
static void make(struct fx *x, const char *const *set, int n)
{
    struct rp_err err = {0};
    rp_recipe_fini(&x->recipe);
    CHECK(rp_recipe_parse(&x->recipe, recipe, sizeof recipe - 1, "tiny.yaml", "cpu", set, n, &err) == 0, "%s", err.msg);
    put_steps(x);
    fx_compute(x);
}

#define PARTS(entropy, decay) "\"loss_parts\":{\"cross_entropy\":\"" entropy "\",\"weight_decay\":\"" decay "\"}"

static const struct bend attacks[] = {
    {"more correct than there are images", STEPS, "\"correct\":1", "\"correct\":5", SEALED, RP_CHECK_numbers, 5},
    {"fewer images than samples", STEPS, "\"images\":4", "\"images\":3", SEALED, RP_CHECK_numbers, 5},
    {"more images than samples", STEPS, "\"images\":4", "\"images\":5", SEALED, RP_CHECK_numbers, 5},
    {"one more correct, figures left", STEPS, "\"correct\":1", "\"correct\":2", SEALED, RP_CHECK_numbers, 5},
    {"one more correct, all figures again", STEPS, "\"correct\":1", "\"correct\":2", COMPUTED, KEY_ALONE},
    {"a counter that the model has not", STEPS, "\"correct\":1", "\"correct5\":1", SEALED, RP_CHECK_schema, 4},
    {"tokens of images", STEPS, "\"images\":4}", "\"images\":4,\"tokens\":4}", SEALED, RP_CHECK_schema, 4},
    {"a part of the loss that is not counted", STEPS, PARTS("0x1.28p+1", "0x0p+0"), PARTS("0x1p+1", "0x0p+0"), SEALED,
     RP_CHECK_schema, 5},
    {"a cross-entropy called weight decay", STEPS, PARTS("0x1.28p+1", "0x0p+0"), PARTS("0x0p+0", "0x1.28p+1"), COMPUTED,
     RP_CHECK_loss, 5},
    {"a first loss that no model begins with", STEPS, "\"loss\":\"0x1.28p+1\"," PARTS("0x1.28p+1", "0x0p+0"),
     "\"loss\":\"0x1.28p-1\"," PARTS("0x1.28p-1", "0x0p+0"), COMPUTED, RP_CHECK_loss, 5},
    {"images counted as sequences", RUN, "/results/throughput/unit", "\"sequences/s\"", SEALED, RP_CHECK_numbers, 5},
    {"sequences for the model's unit", RUN, "/model/sample_unit", "\"sequences\"", SEALED, RP_CHECK_recipe, 5},
    {"counters of another model", RUN, "/model/counters", "[\"tokens\"]", SEALED, RP_CHECK_recipe, 5},
    {"loss parts of another model", RUN, "/model/loss_parts", "[\"mlm\", \"nsp\"]", SEALED, RP_CHECK_recipe, 5},
    {"larger images than the recipe's", FACTS, "/recipe/task.image_size/value", "224", SEALED, RP_CHECK_recipe, 5},
    {"damaged images skipped", FACTS, "/recipe/data.skip_damaged/value", "true", SEALED, RP_CHECK_recipe, 5},
    {"a centre crop for a random one", FACTS, "/recipe/data.augment/value", "\"none\"", SEALED, RP_CHECK_recipe, 5},
    {"more FLOPs than an image has", RUN, "/model/flops_per_sample", "1e12", SEALED, RP_CHECK_plan, 5},
};

TEST(an_honest_run_of_images_verifies)
{
    FX(x);
    make(&x, NULL, 0);
    accepted(&x);
}

TEST(attacks_on_images)
{
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        FX(x);
        make(&x, NULL, 0);
        attack_on(&x, &attacks[i]);
    }
}

/* By this key the squared weights are a part of the loss. */
TEST(weight_decay_is_part_of_the_loss_by_key)
{
    const char *const set[] = {"optimizer.weight_decay_form=loss"};
    FX(x);
    make(&x, set, 1);
    while (strstr(x.steps.data, PARTS("0x1.28p+1", "0x0p+0")))
        fx_bend(&x.steps, PARTS("0x1.28p+1", "0x0p+0"), PARTS("0x1.24p+1", "0x1p-5"));
    fx_compute(&x);
    accepted(&x);
}
