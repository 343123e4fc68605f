// The values of literals that the walk has validated. Short ones are computed exactly here, the
// others by the library.
#include "number.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "simdjson.h"

namespace weir {

constexpr uint64_t exact_max = uint64_t{1} << 53;
constexpr double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

Literal read_integer(Text literal, int64_t* value) {
  const char* at = literal.data;
  const char* end = at + literal.bytes;
  bool negative = *at == '-';
  if (negative) at++;
  uint64_t size = 0;
  bool fits = end - at <= 19;  // 19 digits are below 2^64
  for (; at != end; at++) {
    if (!is_digit(static_cast<uint8_t>(*at))) return Literal::real;
    size = 10 * size + static_cast<uint64_t>(*at - '0');
  }
  if (!fits || size > uint64_t{INT64_MAX} + (negative ? 1 : 0)) return Literal::long_integer;
  *value = static_cast<int64_t>(negative ? 0 - size : size);
  return Literal::integer;
}

static double library_double(Text literal) {
#if defined(__cpp_lib_to_chars) && __cpp_lib_to_chars >= 201611L
  double value;
  if (std::from_chars(literal.data, literal.data + literal.bytes, value).ec == std::errc()) return value;
#endif
  // This also reads values that round to zero, which std::from_chars calls out of range. It stops
  // at the literal's end.
  return simdjson::internal::from_chars(literal.data);
}

double nearest_double(Text literal) {
  const char* at = literal.data;
  const char* end = at + literal.bytes;
  bool negative = *at == '-';
  if (negative) at++;
  if (end - at > 19) return library_double(literal);
  uint64_t digits = 0;
  const char* point = nullptr;
  for (; at != end; at++) {
    if (*at == '.') point = at;
    else if (is_digit(static_cast<uint8_t>(*at))) digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    else return library_double(literal);
  }
  if (digits > exact_max) return library_double(literal);
  // Both operands are exact, so the one division rounds correctly (Clinger 1990).
  double value = static_cast<double>(digits);
  if (point != nullptr) value /= powers[end - point - 1];
  return negative ? -value : value;
}

Digits digits_of(Text literal) {
  constexpr int64_t exponent_max = 100000000;  // more than a body has digits
  const char* at = literal.data;
  const char* const end = at + literal.bytes;
  const char *first = nullptr, *last = nullptr, *point = nullptr;
  for (; at != end && (*at | 0x20) != 'e'; at++) {
    if (*at == '.') point = at;
    else if (*at > '0') {
      if (first == nullptr) first = at;
      last = at;
    }
  }
  Digits digits = {first, last, at, point == nullptr ? at : point, 0};
  if (at == end) return digits;
  const bool negative = *++at == '-';
  if (negative || *at == '+') at++;
  for (; at != end; at++) digits.exponent = std::min(exponent_max, 10 * digits.exponent + (*at - '0'));
  if (negative) digits.exponent = -digits.exponent;
  return digits;
}

Real read_real_integer(Text literal, int64_t* value) {
  double number = nearest_double(literal);
  if (number != std::floor(number)) return Real::fraction;
  const auto [first, last, end, ones, exponent] = digits_of(literal);
  // The digits behind the point, up to the last one that is not zero.
  if (last != nullptr && (last < ones ? last + 1 - ones : last - ones) > exponent) return Real::fraction;
  double size = std::fabs(number);
  // Two integers round to 2^53: 9,007,199,254,740,992 and the next one. Their last digits differ.
  if (size > static_cast<double>(exact_max) || (size == static_cast<double>(exact_max) && *last != '2')) return Real::beyond;
  *value = static_cast<int64_t>(number);
  return Real::integer;
}

}  // namespace weir
