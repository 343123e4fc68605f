// The key column: the key of each row, encoded so that equal keys have equal bytes and the bytes
// sort as the values do.
#pragma once
#include "builders.h"
#include "schema.h"

namespace weir {

// The longest part of a key: a string's length and its bytes.
constexpr size_t key_part_written_max = 1 + key_part_bytes_max;

// Each function writes one part at `out`, which has room for key_part_written_max bytes, and
// returns its end.
uint8_t* write_key_int64(uint8_t* out, int64_t value);
uint8_t* write_key_days(uint8_t* out, int32_t days);
uint8_t* write_key_double(uint8_t* out, double value);
uint8_t* write_key_boolean(uint8_t* out, bool value);
// Returns nullptr where a long string needs SHA-256 and this process has none.
uint8_t* write_key_string(uint8_t* out, const uint8_t* data, size_t bytes);

// Writes row `row` of `into` from the schema's columns at the same row. Returns false where a long
// string needs SHA-256 and this process has none.
bool set_key(const PoolSchema& schema, const std::vector<Builder>& columns, int64_t received_at_micros, Builder& into,
             uint32_t row);

}  // namespace weir
