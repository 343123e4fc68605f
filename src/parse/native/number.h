// Number literals: their grammar, and their values. Dates and times, as docs/contract.md describes
// them.
#pragma once
#include <cstdint>

#include "document.h"

namespace weir {

// A literal of more decimal digits than this, its exponent included, may be beyond f64. The
// reference parser decides.
constexpr int64_t decimal_digits_max = 300;

inline bool is_digit(uint8_t c) { return static_cast<uint8_t>(c - '0') <= 9; }

// The end of the number literal at `at`. Null where there is none, or it may be beyond f64.
inline const uint8_t* number_end(const uint8_t* at) {
  if (*at == '-') at++;
  const uint8_t* first = at;
  if (!is_digit(*at)) return nullptr;
  if (*at == '0') at++;
  else while (is_digit(*at)) at++;
  int64_t digits = at - first;
  if (*at == '.') {
    if (!is_digit(*++at)) return nullptr;
    while (is_digit(*at)) at++;
  }
  if ((*at | 0x20) == 'e') {
    at++;
    bool negative = *at == '-';
    if (*at == '-' || *at == '+') at++;
    if (!is_digit(*at)) return nullptr;
    int64_t exponent = 0;
    for (; is_digit(*at); at++)
      if (exponent < 100000) exponent = 10 * exponent + (*at - '0');
    if (!negative) digits += exponent;
  }
  return digits > decimal_digits_max ? nullptr : at;
}

enum class Literal { integer, long_integer, real };

// Returns the kind of a valid literal, and the value of an integer of 64 bits. A real has a
// fraction or an exponent.
Literal read_integer(Text literal, int64_t* value);

enum class Real { integer, fraction, beyond };

// Returns the kind of a valid literal with a fraction or an exponent, and the value of an integer
// between −2^53 and 2^53. It is exact. The double alone is not: 9007199254740991.5 and
// 0.99999999999999999999 round to integers.
Real read_real_integer(Text literal, int64_t* value);

// The places of a valid literal's digits, and its exponent.
struct Digits {
  const char* first;  // the first digit that is not zero; null if all are
  const char* last;   // the last digit that is not zero
  const char* end;    // the end of the digits
  const char* ones;   // the end of the whole ones
  int64_t exponent;
};

Digits digits_of(Text literal);

// The nearest double of a valid literal.
double nearest_double(Text literal);

// YYYY-MM-DD and nothing else, years 0001 to 9999: days since 1970. Returns false where there is no
// such date.
bool parse_date(const char* text, size_t bytes, int32_t* days);

// A date with or without time and zone: µs since 1970 UTC. Returns false for any other text, and
// outside of the years 0001 to 9999.
bool parse_timestamp(const char* text, size_t bytes, int64_t* micros);

// An epoch number, whose unit follows from its size. What is finer than a µs is cut, toward the
// past, or the number is rounded. Returns false outside of the years 0001 to 9999.
bool epoch_integer(int64_t number, bool cuts, int64_t* micros);
// The same for a valid literal with a fraction or an exponent, by its digits: a double has no room
// for every µs.
bool epoch_decimal(Text literal, bool cuts, int64_t* micros);

}  // namespace weir
