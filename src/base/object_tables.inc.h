/* The tables of the list RP_OBJECT_LIST, whose structs are declared: object.h. */
#define ROW(id, name, type, or_null, of, limit, unit, label, meaning)                                                  \
    {#name, RP_IS_##type, or_null, offsetof(struct rp_##id, name), 0, of, limit, unit, label, meaning},
#define ROWS(id, name, type, or_null, of, limit, meaning)                                                              \
    {#name, RP_IS_##type, or_null, offsetof(struct rp_##id, name), offsetof(struct rp_##id, name##_n),                 \
     of,    limit,         "", "",                            meaning},
#define OBJECT(id, meaning)                                                                                            \
    static const char meaning_##id[] = meaning;                                                                        \
    static const struct rp_object_field fields_##id[] = {
#define FIELD(id, name, type, or_null, limit, unit, label, meaning)                                                    \
    ROW(id, name, type, or_null, NULL, limit, unit, label, meaning)
#define PART(id, name, of, meaning) ROW(id, name, PART, 0, &rp_type_##of, "", "", "", meaning)
#define PART_OR_NONE(id, name, of, meaning) ROW(id, name, PART_OR_NONE, 0, &rp_type_##of, "", "", "", meaning)
#define LIST(id, name, of, limit, meaning) ROWS(id, name, LIST, 0, &rp_type_##of, limit, meaning)
#define LIST_OR_NONE(id, name, of, limit, meaning) ROWS(id, name, LIST, 2, &rp_type_##of, limit, meaning)
#define TEXTS(id, name, limit, meaning) ROWS(id, name, TEXTS, 0, NULL, limit, meaning)
#define INTEGERS(id, name, limit, meaning) ROWS(id, name, INTEGERS, 0, NULL, limit, meaning)
#define END(id)                                                                                                        \
    }                                                                                                                  \
    ;                                                                                                                  \
    const struct rp_object_type rp_type_##id = {#id, meaning_##id, sizeof(struct rp_##id), fields_##id,                \
                                                (int)(sizeof fields_##id / sizeof *fields_##id)};
#include RP_OBJECT_LIST
#undef ROW
#undef ROWS
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
