/* What the readers of JSON share. */
#ifndef LOCALRANK_TEXT_H
#define LOCALRANK_TEXT_H

#include <stdint.h>
#include <string.h>

static inline int is_space(uint8_t byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static inline const uint8_t *after_space(const uint8_t *at, const uint8_t *end)
{
    while (at < end && is_space(*at))
        at++;
    return at;
}

static inline int is_digit(const uint8_t *at, const uint8_t *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* The quote that closes a text, or nothing. */
static inline const uint8_t *closing(const uint8_t *begin, const uint8_t *end)
{
    for (const uint8_t *at = begin; at < end && (at = memchr(at, '"', (size_t)(end - at))); at++) {
        const uint8_t *before = at;
        while (before > begin && before[-1] == '\\')
            before--;
        if ((at - before) % 2 == 0)
            return at;
    }
    return 0;
}

#endif
