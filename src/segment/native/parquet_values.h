// The values of a page in PLAIN encoding: rows that are null have none.
#pragma once
#include <algorithm>

#include "parquet.h"

namespace parquet {

// The first row of the next page; a multiple of eight, or `end`.
inline size_t page_end(const Column& column, size_t row, size_t end) {
  const size_t last = end - row > PAGE_ROWS ? row + PAGE_ROWS : end;
  if (!column.is_text()) return last;
  size_t next = row;
  const auto fits = [&](size_t to) {
    const size_t bytes = static_cast<size_t>(column.offsets[to] - column.offsets[row]) + 4 * (to - row);
    return bytes <= (to - row > PAGE_TEXTS ? PAGE_BYTES : PAGE_BYTES_MAX);
  };
  // The last eight rows may pass the limit by themselves only: a page has at least eight.
  do next = last - next > 8 ? next + 8 : last;
  while (next < last && fits(last - next > 8 ? next + 8 : last));
  return next;
}

// Bytes that the values of [from, to) take at most.
inline size_t plain_bytes_max(const Column& column, size_t from, size_t to) {
  const size_t rows = to - from;
  if (column.is_text()) return static_cast<size_t>(column.offsets[to] - column.offsets[from]) + 4 * rows;
  switch (column.type) {
    case BOOLEAN: return rows / 8 + 1;
    case DOUBLE: case INT64: case TIMESTAMP: return 8 * rows;
    default: return 4 * rows;
  }
}

// `Stored` is the physical type: 8- and 16-bit integers are stored in 32.
template <class Value, class Stored>
uint8_t* put_numbers(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  const Value* values = reinterpret_cast<const Value*>(column.data);
  if (!has_nulls && sizeof(Value) == sizeof(Stored)) {
    std::memcpy(to, values + from, (end - from) * sizeof(Value));
    return to + (end - from) * sizeof(Value);
  }
  for (size_t row = from; row < end; row++) {
    const Stored stored = static_cast<Stored>(values[row]);
    std::memcpy(to, &stored, sizeof stored);  // where the row is null the next one takes its place
    to += !has_nulls || column.has(row) ? sizeof stored : 0;
  }
  return to;
}

inline uint8_t* put_bits(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  if (!has_nulls) {
    const size_t bytes = (end - from + 7) / 8;
    std::memcpy(to, column.data + from / 8, bytes);
    return to + bytes;
  }
  unsigned byte = 0, filled = 0;
  for (size_t row = from; row < end; row++) {
    if (!column.has(row)) continue;
    byte |= ((column.data[row >> 3] >> (row & 7)) & 1u) << filled;
    if (++filled == 8) *to++ = static_cast<uint8_t>(byte), byte = filled = 0;
  }
  if (filled > 0) *to++ = static_cast<uint8_t>(byte);
  return to;
}

inline uint8_t* put_text(uint8_t* to, Text text) {
  const uint32_t size = static_cast<uint32_t>(text.size);
  std::memcpy(to, &size, 4);
  if (size > 0) std::memcpy(to + 4, text.data, size);
  return to + 4 + size;
}

inline uint8_t* put_texts(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  if (column.data != nullptr) {
    for (size_t row = from; row < end; row++)
      if (!has_nulls || column.has(row)) to = put_text(to, column.text(row));
    return to;
  }
  const Piece* piece = std::upper_bound(column.pieces.data(), column.pieces.data() + column.pieces.size(), from,
                                        [](size_t row, const Piece& one) { return row < one.end; });
  for (size_t row = from; row < end; piece++)
    for (const size_t last = std::min(end, piece->end); row < last; row++)
      to = put_text(to, {piece->data + (column.offsets[row] - piece->begin), column.size(row)});
  return to;
}

// `to` has room for plain_bytes_max and 8 bytes more.
inline uint8_t* put_plain(uint8_t* to, const Column& column, size_t from, size_t end, bool has_nulls) {
  switch (column.type) {
    case BOOLEAN: return put_bits(to, column, from, end, has_nulls);
    case FLOAT: return put_numbers<float, float>(to, column, from, end, has_nulls);
    case DOUBLE: return put_numbers<double, double>(to, column, from, end, has_nulls);
    case INT8: return put_numbers<int8_t, int32_t>(to, column, from, end, has_nulls);
    case INT16: return put_numbers<int16_t, int32_t>(to, column, from, end, has_nulls);
    case INT32: case DATE: return put_numbers<int32_t, int32_t>(to, column, from, end, has_nulls);
    case INT64: case TIMESTAMP: return put_numbers<int64_t, int64_t>(to, column, from, end, has_nulls);
    case STRING: case JSON: return put_texts(to, column, from, end, has_nulls);
  }
  return to;
}

}  // namespace parquet
