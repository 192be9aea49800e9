/* The numbers of a JSON text, lifted out of it.
 *
 * Wherever an object's member of a given name is an array of numbers and nulls, or an array of such arrays that are
 * equally long, its numbers go into a buffer and it is left out of a copy of the text, the outline, where null stands
 * instead. If they may be among the numbers, texts, true and false stay in the outline: there the array has only these.
 * A complete value is replaced by a complete value, so that the text is JSON if and only if the outline is. So parsing
 * the outline checks everything that is not checked here.
 *
 * A number becomes the double nearest to it, and that the float nearest to it. If anything is not plain, or cannot be
 * decided here, the text is UNUSUAL, and the caller reads it in another way. No function calls itself.
 */
#include <math.h>
#include <string.h>

#include "native.h"
#include "text.h"

enum { UNUSUAL = -1, MOST_DIGITS = 19, SMALLEST_POWER = -342, LARGEST_POWER = 308 };

/* The longest number of the usual form, and how many bytes before and after its begin are read, in bytes. */
enum { MOST_LENGTH = 32, AROUND = 40 };

typedef struct {
    const uint8_t *end;
    const uint64_t (*powers)[2];
    float *value, *values_end;
    const uint8_t *safe, *unsafe; /* from where on, and up to where, there are AROUND bytes around */
    uint8_t *out, *out_end;       /* the outline */
    const float *values;          /* the first one */
    int64_t *place, *places_end;  /* among the values, of each text */
    int has_texts;                /* whether this array has any so far */
} reader;

static const double POWERS_OF_TEN[16] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                         1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

/* The double nearest to mantissa times ten to the power, by Eisel and Lemire's method, whose answer is proved to be right
 * for every mantissa of 64 bits (Mushtak and Lemire, 2023, Fast number parsing without fallback). */
static inline double nearest(const uint64_t (*powers)[2], uint64_t mantissa, int64_t power)
{
    if (!mantissa || power < SMALLEST_POWER)
        return 0;
    if (power > LARGEST_POWER)
        return INFINITY;
    const uint64_t *five = powers[power - SMALLEST_POWER];
    const int zeros = __builtin_clzll(mantissa);
    const uint64_t shifted = mantissa << zeros;
    unsigned __int128 product = (unsigned __int128)shifted * five[0];
    if ((uint64_t)(product >> 64 & 0x1ff) == 0x1ff) /* the bits that decide may still change */
        product += (unsigned __int128)shifted * five[1] >> 64;
    const uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    const int upper = (int)(high >> 63);
    const int dropped = upper + 9; /* of 64 bits, 53 and two for rounding stay */
    uint64_t bits = high >> dropped;
    /* 217706 / 65536 is a little more than the binary logarithm of 10. */
    int64_t exponent = (217706 * power >> 16) + 63 + upper - zeros + 1023;
    if (exponent <= 0) { /* below the normal numbers */
        if (exponent <= -63)
            return 0;
        bits >>= 1 - exponent;
        bits += bits & 1;
        bits >>= 1; /* which may have become normal: its bits then say so by themselves */
        exponent = 0;
    } else {
        /* Exactly halfway, which only powers of five that fit in 64 bits can be: to the even one. */
        if (low <= 1 && power >= -4 && power <= 23 && (bits & 3) == 1 && bits << dropped == high)
            bits &= ~UINT64_C(1);
        bits += bits & 1;
        bits >>= 1;
        if (bits >> 53) {
            bits >>= 1;
            exponent++;
        }
        if (exponent >= 2047)
            return INFINITY;
        bits &= ~(UINT64_C(1) << 52);
        bits |= (uint64_t)exponent << 52;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Digits as they stand: mantissa times ten to the power, and perhaps a little more. */
typedef struct {
    uint64_t mantissa;
    int64_t power;
    int inexact; /* digits were left out */
} decimals;

/* Read any digits, byte by byte. Returns the place after them, or NULL if there are none. */
static const uint8_t *any_digits(const uint8_t *at, const uint8_t *end, decimals *found)
{
    int kept = 0;
    *found = (decimals){0, 0, 0};
    if (!is_digit(at, end) || (*at == '0' && is_digit(at + 1, end)))
        return 0;
    for (int after = 0; after < 2; after++) {
        for (; is_digit(at, end); at++) {
            if (kept < MOST_DIGITS) {
                found->mantissa = found->mantissa * 10 + (*at - '0');
                found->power -= after;
                kept += found->mantissa != 0;
            } else {
                found->inexact |= *at != '0';
                found->power += !after;
            }
        }
        if (after || at == end || *at != '.')
            break;
        at++;
        if (!is_digit(at, end))
            return 0;
    }
    return at;
}

/* Read any number. Returns the place after it, or NULL if it is unusual. */
static __attribute__((noinline)) const uint8_t *any_number(reader *into, const uint8_t *at)
{
    const uint8_t *const begin = at, *const end = into->end;
    int negative = *at == '-';
    decimals found;
    if (!(at = any_digits(at + negative, end, &found)))
        return 0;
    if (at < end && (*at | 0x20) == 'e') {
        at++;
        const int below = at < end && *at == '-';
        at += below || (at < end && *at == '+');
        if (!is_digit(at, end))
            return 0;
        int64_t exponent = 0;
        for (; is_digit(at, end); at++)
            if (exponent < INT64_C(1) << 50) /* more than a text has digits to make up for */
                exponent = exponent * 10 + (*at - '0');
        found.power += below ? -exponent : exponent;
    } else if (at - begin == 2 && !found.mantissa)
        negative = 0; /* -0 is an integer, and integers have one zero */
    const double value = nearest(into->powers, found.mantissa, found.power);
    if (isinf(value) || (found.inexact && value != nearest(into->powers, found.mantissa + 1, found.power)))
        return 0;
    *into->value++ = (float)(negative ? -value : value);
    return at;
}

typedef uint8_t bytes __attribute__((vector_size(16)));

static inline bytes sixteen(const uint8_t *at)
{
    bytes found;
    memcpy(&found, at, sizeof found);
    return found;
}

/* One bit for each byte of a comparison, the lowest for the first. */
static inline uint32_t bits(bytes compared)
{
#ifdef __SSE2__
    return (uint32_t)__builtin_ia32_pmovmskb128((char __attribute__((vector_size(16))))compared);
#else
    uint64_t halves[2];
    memcpy(halves, &compared, sizeof halves);
    for (int i = 0; i < 2; i++) /* every byte's lowest bit moves to the top, none onto another */
        halves[i] = (halves[i] & UINT64_C(0x0101010101010101)) * UINT64_C(0x0102040810204080) >> 56;
    return (uint32_t)(halves[0] | halves[1] << 8);
#endif
}

static inline uint32_t separators(const uint8_t *at)
{
    const bytes here = sixteen(at);
    return bits((bytes)(here == ',') | (bytes)(here == ']'));
}

/* A mask of the last ``count`` of sixteen bytes; of all if ``count`` is larger. */
static inline bytes last(int count)
{
    static const uint8_t MASKS[16 + MOST_LENGTH] = {[16 ... 15 + MOST_LENGTH] = 255};
    return sixteen(MASKS + count);
}

/* The number that sixteen digits are, each of 0 to 9. */
static inline uint64_t decimal(bytes digits)
{
    uint64_t halves[2];
    memcpy(halves, &digits, sizeof halves);
    const uint64_t low = UINT64_C(0x000000ff000000ff);
    for (int i = 0; i < 2; i++) {
        halves[i] = halves[i] * 10 + (halves[i] >> 8); /* two digits in every second byte */
        halves[i] = ((halves[i] & low) * (100 + (UINT64_C(1000000) << 32)) +
                     (halves[i] >> 16 & low) * (1 + (UINT64_C(10000) << 32))) >> 32;
    }
    return halves[0] * 100000000 + halves[1];
}

/* Read a number of the usual form: digits, perhaps with a point among them, and a separator right after them. There are
 * AROUND bytes before and after its begin. Returns the place after it, or NULL if it needs `any_number`.
 *
 * No branch depends on the number of digits, because the processor cannot predict it. */
static inline const uint8_t *usual_number(reader *into, const uint8_t *at)
{
    uint32_t ends = separators(at);
    const int is_long = !ends;
    if (is_long && !(ends = separators(at + 16) << 16))
        return 0;
    const int length = __builtin_ctz(ends);
    const uint32_t points = bits((bytes)(sixteen(at) == '.')) & (ends - 1) & ~ends;
    const int has_point = points != 0, negative = *at == '-';
    const int digits = length - negative - has_point;
    const int whole = __builtin_ctz(points | ends) - negative, fraction = digits - whole;
    const uint8_t *const end = at + length;
    /* The digits, without the point, at the end of sixteen bytes. */
    const bytes after = last(fraction);
    const bytes found = (((sixteen(end - 16) & after) | (sixteen(end - 16 - has_point) & ~after)) - '0') & last(digits);
    if (__builtin_expect(bits((bytes)(found > 9)) | (whole < 1) | (has_point > fraction) |
                             ((whole > 1) & (at[negative] == '0')), 0))
        return 0;
    uint64_t mantissa = decimal(found);
    double value;
    if (is_long) { /* the same for what is before those sixteen */
        const bytes rest = last(fraction < 16 ? 0 : fraction - 16);
        const bytes first = (((sixteen(end - 32) & rest) | (sixteen(end - 32 - has_point) & ~rest)) - '0') &
                            last(digits < 16 ? 0 : digits - 16);
        if (digits > MOST_DIGITS || bits((bytes)(first > 9)))
            return 0;
        mantissa += decimal(first) * UINT64_C(10000000000000000);
        value = nearest(into->powers, mantissa, -fraction);
    } else /* both are exact, so that one operation rounds once (Clinger, 1990) */
        value = (double)(int64_t)mantissa / POWERS_OF_TEN[fraction];
    /* -0 is an integer, and integers have one zero. */
    static const double SIGNS[] = {1, -1};
    *into->value++ = (float)(value * SIGNS[negative & ((length > 2) | (mantissa != 0))]);
    return end;
}

/* Copy bytes to the outline; returns whether there is room. */
static inline int copied(reader *into, const uint8_t *from, int64_t count)
{
    if (count > into->out_end - into->out)
        return 0;
    memcpy(into->out, from, (size_t)count);
    into->out += count;
    return 1;
}

/* Move a text, true or false to the outline; NaN stands in its place. Returns the place after it, or NULL. */
static __attribute__((noinline)) const uint8_t *word(reader *into, const uint8_t *at)
{
    const uint8_t *after;
    if (*at == '"') {
        if (!(after = closing(at + 1, into->end)))
            return 0;
        after++;
    } else {
        const int64_t length = *at == 't' ? 4 : 5;
        if (into->end - at < length || memcmp(at, *at == 't' ? "true" : "false", (size_t)length))
            return 0;
        after = at + length;
    }
    if (into->place == into->places_end || !copied(into, (const uint8_t *)(into->has_texts ? "," : "["), 1) ||
        !copied(into, at, after - at))
        return 0;
    into->has_texts = 1;
    *into->place++ = into->value - into->values;
    *into->value++ = NAN;
    return after;
}

/* Read numbers and nulls up to the bracket that closes them; returns what comes after it, or nothing. */
static inline const uint8_t *row(reader *into, const uint8_t *at)
{
    const uint8_t *const end = into->end;
    for (;;) {
        if (at == end || into->value == into->values_end)
            return 0;
        if (*at == 'n') {
            if (end - at < 4 || memcmp(at, "null", 4))
                return 0;
            *into->value++ = NAN;
            at += 4;
        } else if (*at == '"' || *at == 't' || *at == 'f') {
            if (!(at = word(into, at)))
                return 0;
        } else {
            const uint8_t *after = at >= into->safe && at < into->unsafe ? usual_number(into, at) : 0;
            if (!after && !(after = any_number(into, at)))
                return 0;
            at = after;
        }
        at = after_space(at, end);
        if (at == end)
            return 0;
        if (*at == ']')
            return at + 1;
        if (*at != ',')
            return 0;
        at = after_space(at + 1, end);
    }
}

/* Read a row, or rows up to the bracket that closes them. */
static inline const uint8_t *rows(reader *into, const uint8_t *at, span *found)
{
    const uint8_t *const end = into->end;
    const float *begin = into->value;
    found->rows = 0;
    if (*at != '[') {
        at = row(into, at);
        found->width = into->value - begin;
        return at;
    }
    for (;;) {
        if (at == end || *at != '[')
            return 0;
        begin = into->value;
        if (!(at = row(into, after_space(at + 1, end))))
            return 0;
        if (found->rows && found->width != into->value - begin)
            return 0;
        found->width = into->value - begin;
        found->rows++;
        at = after_space(at, end);
        if (at == end)
            return 0;
        if (*at == ']')
            return at + 1;
        if (*at != ',')
            return 0;
        at = after_space(at + 1, end);
    }
}

/* Returns the number of arrays lifted, or UNUSUAL. ``totals`` become the number of values, of the outline's bytes, of
 * members of all objects in the text, and of texts among the values. Without arrays no outline is written: it is the text
 * itself. Without room for places, texts may not stand among numbers.
 *
 * A member of that name whose value is null, or whose name is written with escapes, is UNUSUAL too. So each null of
 * such a member in the parsed outline stands for an array, in the same order, and so does each list that begins with a
 * text, true or false.
 *
 * If the name is empty, members of all names are meant, and an array that holds anything else stays where it is. */
int64_t localrank_lift_numbers(const uint8_t *text, int64_t length, const uint8_t *name, int64_t name_length,
                               const uint64_t (*powers)[2], float *values, int64_t n_values, span *spans,
                               int64_t n_spans, uint8_t *outline, int64_t n_outline, int64_t *places, int64_t n_places,
                               int64_t *totals)
{
    const uint8_t *const end = text + length;
    const uint8_t *at = text, *rest = text;
    reader into = {end,     powers,           values, values + n_values, text, text, outline, outline + n_outline, values,
                   places, places + n_places, 0};
    if (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && length > 2 * AROUND) {
        into.safe = text + AROUND;
        into.unsafe = end - AROUND;
    }
    const int any = !name_length;
    int64_t lifted = 0, members = 0;
    while (at < end && (at = memchr(at, '"', (size_t)(end - at)))) {
        const uint8_t *const opened = at + 1, *const closed = closing(opened, end);
        if (!closed)
            return UNUSUAL;
        at = after_space(closed + 1, end);
        if (at == end || *at != ':')
            continue;
        members++;
        if (memchr(opened, '\\', (size_t)(closed - opened)))
            return UNUSUAL;
        at = after_space(at + 1, end);
        if (at == end || (!any && (closed - opened != name_length || memcmp(opened, name, (size_t)name_length))))
            continue;
        if ((*at == '{' && !any) || *at == 'n') /* as it is in no request that is plain */
            return UNUSUAL;
        if (*at != '[')
            continue;
        const uint8_t *const inside = after_space(at + 1, end);
        if (inside == end)
            continue;
        const int is_word = *inside == '"' || *inside == 't' || *inside == 'f';
        if (!(*inside == '[' || *inside == 'n' || *inside == '-' || is_digit(inside, end) || (is_word && n_places)))
            continue;
        if (lifted == n_spans)
            return UNUSUAL;
        const reader before = into;
        span *const found = spans + lifted;
        into.has_texts = 0;
        const uint8_t *const after = copied(&into, rest, at - rest) ? rows(&into, inside, found) : 0;
        if (!after && any) {
            into = before;
            continue;
        }
        if (!after || !copied(&into, (const uint8_t *)(into.has_texts ? "]" : "null"), into.has_texts ? 1 : 4))
            return UNUSUAL;
        lifted++;
        found->begin = at - text;
        found->end = after - text;
        rest = at = after;
    }
    if (lifted && !copied(&into, rest, end - rest))
        return UNUSUAL;
    totals[0] = into.value - values;
    totals[1] = into.out - outline;
    totals[2] = members;
    totals[3] = into.place - places;
    return lifted;
}
