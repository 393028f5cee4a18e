/* A function in LANGUAGE sfi, and the quick way for its arguments, which most calls take. */
#ifndef PGSFI_FUNCTION_H
#define PGSFI_FUNCTION_H

#include "pgsfi.h"

#include "catalog/pg_type.h"
#include "utils/geo_decls.h"

#pragma GCC visibility push(hidden)

/* The way of quick_call for an argument. */
typedef struct QuickArgument {
    uint8 kind;  /* a Kind */
    uint8 word;  /* its first C argument */
    uint16 size; /* KIND_FIXED */
} QuickArgument;

/* A function, for as long as its FmgrInfo. quick_call needs the first lines only. */
typedef struct Function {
    Instance *instance;
    sfi_prepared *prepared;
    Caller caller;
    Oid role;
    int count;
    QuickArgument quick_arguments[MAX_WORDS];
    Oid quick_result; /* the type, if quick_call makes the value itself */
    bool quick;       /* no block, and only arguments that quick_call knows */
    bool strict;
    bool set;
    bool rows;    /* some values are rows */
    bool block;   /* gets a CallBlock */
    SupportCache support;
    char *symbol;
    Oid arguments[FUNC_MAX_ARGS];
    Crossing crossings[FUNC_MAX_ARGS];
    Crossing result;
} Function;

/* Returns what is known of a function, for the current role. */
extern Function *pgsfi_function(FmgrInfo *info);

/* The bytes of an argument and the word that gets their address. */
typedef struct Piece {
    const void *bytes;
    Size length;
    sfi_value *word;
} Piece;

/* Detoasts a value. Most are not compressed and in their row. */
static inline struct varlena *plain(Datum value)
{
    struct varlena *bytes = (struct varlena *) DatumGetPointer(value);

    return likely(VARATT_IS_4B_U(bytes) || (VARATT_IS_1B(bytes) && !VARATT_IS_1B_E(bytes))) ? bytes
                                                                                             : pg_detoast_datum_packed(bytes);
}

/* Says whether the callee may read these bytes where they lie. Code of mode write may load from any
 * address, but the compiler counts on aligned numbers. */
static inline bool stays(const Instance *instance, Kind kind, const void *bytes)
{
    return instance->in_place && (kind == KIND_TEXT || ((uintptr_t) bytes & 7) == 0);
}

/* Copies bytes. A point is two words, which need no call. */
static inline void copy_piece(void *to, const void *from, Size length)
{
    if (length == sizeof(Point)) memcpy(to, from, sizeof(Point));
    else memcpy(to, from, length);
}

/* Finds the points of a polygon. */
static inline const char *points_of(struct varlena *bytes, Size *count)
{
    const char *data = VARDATA_ANY(bytes);
    Size most = (VARSIZE_ANY_EXHDR(bytes) - (offsetof(POLYGON, p) - VARHDRSZ)) / sizeof(Point);
    int32 said;

    /* A short header moves the rest of the value. */
    memcpy(&said, data, sizeof said);
    *count = Min((Size) said, most);
    return data + (offsetof(POLYGON, p) - VARHDRSZ);
}

/* Gives an argument its words. Returns true if the bytes of *piece must be copied for that. */
static inline bool put_quick(const Instance *instance, QuickArgument argument, Datum value, sfi_value *word, Piece *piece)
{
    if (argument.kind == KIND_WORD || argument.kind == KIND_FLOAT8) {
        *word = sfi_u(value);
        return false;
    }
    if (argument.kind == KIND_FLOAT4) {
        *word = sfi_f32(DatumGetFloat4(value));
        return false;
    }
    if (argument.kind == KIND_FIXED) {
        piece->bytes = DatumGetPointer(value);
        piece->length = argument.size;
    } else if (argument.kind == KIND_POLYGON) {
        Size points;

        piece->bytes = points_of(plain(value), &points);
        piece->length = points * sizeof(Point);
        word[1] = sfi_u(points);
    } else {
        struct varlena *bytes = plain(value);

        piece->bytes = VARDATA_ANY(bytes);
        piece->length = VARSIZE_ANY_EXHDR(bytes);
        word[1] = sfi_u(piece->length);
    }
    piece->word = word;
    if (!stays(instance, argument.kind, piece->bytes)) return true;
    *word = sfi_u((uintptr_t) piece->bytes);
    return false;
}

/* Returns the room that a piece needs. */
static inline Size piece_room(const Piece *piece)
{
    return TYPEALIGN(16, piece->length + 1);
}

/* Copies a piece to its room. Returns the room after it. */
static inline char *put_piece(const Piece *piece, char *room)
{
    copy_piece(room, piece->bytes, piece->length);
    *piece->word = sfi_u((uintptr_t) room);
    return room + piece_room(piece);
}

/* Makes the SQL value of a quick call's result. */
static inline Datum take_quick(Function *function, sfi_value result)
{
    switch (function->quick_result) {
    case FLOAT8OID: return Float8GetDatum(result.f);
    case INT4OID: return Int32GetDatum((int32) result.u);
    case BOOLOID: return BoolGetDatum((result.u & 0xff) != 0);
    default: {
        Found found = {function->instance, function->prepared, result, 0, false};

        return pgsfi_take(&function->result, &found);
    }
    }
}

#pragma GCC visibility pop

#endif
