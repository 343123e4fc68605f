// Dates and times of clients, as docs/contract.md describes them.
#pragma once
#include "number.h"

namespace weir {

// YYYY-MM-DD and nothing else, years 0001 to 9999: days since 1970. Returns false where there is no
// such date.
bool parse_date(const char* text, size_t bytes, int32_t* days);

// A date with or without time and zone: µs since 1970 UTC. Returns false for any other text, and
// outside of the years 0001 to 9999.
bool parse_timestamp(const char* text, size_t bytes, int64_t* micros);

// An epoch number, whose unit follows from its size. Returns false outside of the years 0001 to
// 9999.
bool epoch_integer(int64_t number, int64_t* micros);
// The same for a valid literal with a fraction or an exponent, by its digits: a double has no room
// for every µs.
bool epoch_decimal(Text literal, int64_t* micros);

}  // namespace weir
