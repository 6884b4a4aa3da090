/* The structs of the list RP_OBJECT_LIST: object.h. */
#define OBJECT(id, meaning) struct rp_##id {
#define FIELD(id, name, type, or_null, limit, unit, label, meaning) rp_field_##type name;
#define PART(id, name, of, meaning) struct rp_##of name;
#define PART_OR_NONE(id, name, of, meaning) struct rp_##of *name;
#define LIST(id, name, of, limit, meaning)                                                                             \
    struct rp_##of *name;                                                                                              \
    int64_t name##_n;
#define LIST_OR_NONE LIST
#define TEXTS(id, name, limit, meaning)                                                                                \
    char **name;                                                                                                       \
    int64_t name##_n;
#define INTEGERS(id, name, limit, meaning)                                                                             \
    int64_t *name;                                                                                                     \
    int64_t name##_n;
#define END(id)                                                                                                        \
    }                                                                                                                  \
    ;                                                                                                                  \
    extern const struct rp_object_type rp_type_##id;                                                                   \
    static inline void rp_object_end_##id(struct rp_##id *object)                                                      \
    {                                                                                                                  \
        rp_object_fini(object, &rp_type_##id);                                                                         \
    }
#include RP_OBJECT_LIST
#undef OBJECT
#undef FIELD
#undef PART
#undef PART_OR_NONE
#undef LIST
#undef LIST_OR_NONE
#undef TEXTS
#undef INTEGERS
#undef END
#undef RP_OBJECT_LIST
