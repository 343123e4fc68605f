// Timestamps and dates by hand: the grammar is small and fixed, and one is read for every event.
#include <cstring>

#include "number.h"

namespace weir {

// 0001-01-01T00:00:00.000000Z and 9999-12-31T23:59:59.999999Z.
constexpr int64_t micros_min = -62135596800000000, micros_max = 253402300799999999;

static bool in_years(int64_t micros, int64_t* out) {
  *out = micros;
  return micros >= micros_min && micros <= micros_max;
}

// Two digits as a number, 100 or more where they are not digits.
static inline unsigned two(const char* at) {
  unsigned a = static_cast<unsigned char>(at[0]) - '0', b = static_cast<unsigned char>(at[1]) - '0';
  return a > 9 || b > 9 ? 100 : a * 10 + b;
}

// Days since 1970 of a day of the proleptic Gregorian calendar; years begin in March here.
static int32_t days_of(unsigned year, unsigned month, unsigned day) {
  unsigned y = month <= 2 ? year - 1 : year;
  unsigned century = y / 100;
  unsigned m = month > 2 ? month - 3 : month + 9;
  return static_cast<int32_t>(365 * y + y / 4 - century + century / 4 + (153 * m + 2) / 5 + day - 1) - 719468;
}

// The first ten bytes. Returns false where there is no such day.
static bool date_at(const char* text, int32_t* days) {
  static const uint8_t month_days[] = {0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  unsigned century = two(text), year_low = two(text + 2), month = two(text + 5), day = two(text + 8);
  if (century > 99 || year_low > 99 || text[4] != '-' || text[7] != '-') return false;
  unsigned year = century * 100 + year_low;
  if (year == 0 || month - 1 > 11 || day == 0) return false;
  bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
  if (day > month_days[month] + (month == 2 && leap ? 1u : 0u)) return false;
  *days = days_of(year, month, day);
  return true;
}

bool parse_date(const char* text, size_t bytes, int32_t* days) { return bytes == 10 && date_at(text, days); }

// Reads `.digits` or `,digits` at `at`, if there is one, to µs; further digits are cut. Returns
// false where no digit follows.
static bool fraction_at(const char*& at, const char* end, int64_t* micros) {
  *micros = 0;
  if (at == end || (*at != '.' && *at != ',')) return true;
  at++;
  const char* first = at;
  int64_t unit = 100000;
  for (; at != end && static_cast<unsigned char>(*at - '0') <= 9; at++, unit /= 10) *micros += (*at - '0') * unit;
  return at != first;
}

// Reads a zone that takes all the rest: nothing, Z, ` UTC`, or ±HH, ±HHMM or ±HH:MM with a space
// before it or not. Seconds east of UTC.
static bool zone_at(const char* at, const char* end, int64_t* seconds) {
  *seconds = 0;
  size_t bytes = end - at;
  if (bytes == 0 || (bytes == 1 && (*at == 'Z' || *at == 'z'))) return true;
  if (*at == ' ') {
    at++;
    bytes--;
    if (bytes == 3 && std::memcmp(at, "UTC", 3) == 0) return true;
  }
  if (bytes == 0) return false;
  if (*at != '+' && *at != '-') return false;
  unsigned minutes = 0;
  if (bytes == 5) minutes = two(at + 3);
  else if (bytes == 6 && at[3] == ':') minutes = two(at + 4);
  else if (bytes != 3) return false;
  unsigned hours = two(at + 1);
  if (hours > 23 || minutes > 59) return false;
  *seconds = static_cast<int64_t>(hours) * 3600 + minutes * 60;
  if (*at == '-') *seconds = -*seconds;
  return true;
}

bool parse_timestamp(const char* text, size_t bytes, int64_t* micros) {
  int32_t days;
  if (bytes < 10 || !date_at(text, &days)) return false;
  if (bytes == 10) return in_years(int64_t{days} * 86400000000, micros);
  if (bytes < 16 || (text[10] != 'T' && text[10] != 't' && text[10] != ' ') || text[13] != ':') return false;
  unsigned hour = two(text + 11), minute = two(text + 14), second = 0;
  if (hour > 23 || minute > 59) return false;
  const char* at = text + 16;
  const char* end = text + bytes;
  int64_t fraction = 0, zone;
  if (at != end && *at == ':') {
    if (end - at < 3 || (second = two(at + 1)) > 60) return false;
    at += 3;
    if (!fraction_at(at, end, &fraction)) return false;
  }
  if (!zone_at(at, end, &zone)) return false;
  int64_t seconds = int64_t{days} * 86400 + hour * 3600 + minute * 60 + second - zone;
  return in_years(seconds * 1000000 + fraction, micros);
}

bool epoch_integer(int64_t number, bool cuts, int64_t* micros) {
  if (number > -100000000000 && number < 100000000000) return in_years(number * 1000000, micros);
  if (number > -100000000000000 && number < 100000000000000) return in_years(number * 1000, micros);
  if (number > -100000000000000000 && number < 100000000000000000) return in_years(number, micros);
  // floor(ns / 1000), or floor((ns + 500) / 1000) without the sum, which could overflow.
  int64_t whole = number / 1000, rest = number % 1000;
  if (rest < 0) {
    rest += 1000;
    whole -= 1;
  }
  return in_years(!cuts && rest >= 500 ? whole + 1 : whole, micros);
}

bool epoch_decimal(Text literal, bool cuts, int64_t* micros) {
  const auto [first, last, stop, ones, exponent] = digits_of(literal);
  *micros = 0;
  if (first == nullptr) return true;  // it is zero
  // The value is below ten to this power, and not below the next lower one.
  const int64_t order = (first < ones ? ones - first : ones + 1 - first) + exponent;
  if (order > 21) return false;  // nanoseconds beyond the year 9999
  // The number of digits, from the first that is not zero, that are whole microseconds: at most 18.
  const int64_t kept = order + (order <= 11 ? 6 : order <= 14 ? 3 : order <= 17 ? 0 : -3);
  int64_t size = 0, place = 0, next = 0;
  const char* at = first;
  for (; at != stop && place <= kept; at++) {
    if (*at == '.') continue;
    if (place == kept) next = *at - '0';
    else size = 10 * size + (*at - '0');
    place++;
  }
  for (; place < kept; place++) size *= 10;
  const bool negative = *literal.data == '-';
  // True where only zeros follow `next`.
  const bool is_last = last < at;
  // A cut is toward the past, and a half is rounded up: towards zero for a negative number.
  if (cuts ? negative && (next > 0 || !is_last) : next > 5 || (next == 5 && !(negative && is_last))) size++;
  return in_years(negative ? -size : size, micros);
}

}  // namespace weir
