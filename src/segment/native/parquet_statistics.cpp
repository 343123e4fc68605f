// Smallest and largest value of a chunk. Parquet's rules for floating point: no range where a value is not a number,
// and a zero is stored as -0 at the lower end and +0 at the upper one.
#include <cmath>
#include <type_traits>

#include "parquet.h"

namespace parquet {

namespace {

void store(Statistics& statistics, const void* min, size_t min_size, const void* max, size_t max_size) {
  if (min_size > STATISTICS_BYTES || max_size > STATISTICS_BYTES) return;
  if (min_size > 0) std::memcpy(statistics.min, min, min_size);
  if (max_size > 0) std::memcpy(statistics.max, max, max_size);
  statistics.min_size = static_cast<uint8_t>(min_size);
  statistics.max_size = static_cast<uint8_t>(max_size);
  statistics.has_range = true;
}

// `Stored` is the physical type.
template <class Value, class Stored>
void number_range(Statistics& statistics, const Column& column, size_t from, size_t to) {
  const Value* values = reinterpret_cast<const Value*>(column.data);
  while (from < to && !column.has(from)) from++;
  if (from == to) return;
  Value min = values[from], max = min;
  bool has_nan = false;
  const auto take = [&](Value value) {
    if constexpr (std::is_floating_point_v<Value>) has_nan |= value != value;
    min = value < min ? value : min;
    max = value > max ? value : max;
  };
  if (column.validity == nullptr)
    for (size_t row = from; row < to; row++) take(values[row]);
  else
    for (size_t row = from; row < to; row++)
      if (column.has(row)) take(values[row]);
  if (has_nan) return;
  Stored low = static_cast<Stored>(min), high = static_cast<Stored>(max);
  if constexpr (std::is_floating_point_v<Value>) {
    if (low == 0) low = -Stored{0};
    if (high == 0) high = Stored{0};
  }
  store(statistics, &low, sizeof low, &high, sizeof high);
}

void boolean_range(Statistics& statistics, const Column& column, size_t from, size_t to) {
  uint8_t min = 1, max = 0;
  bool is_empty = true;
  for (size_t row = from; row < to; row++) {
    if (!column.has(row)) continue;
    const uint8_t value = (column.data[row >> 3] >> (row & 7)) & 1;
    min &= value, max |= value, is_empty = false;
  }
  if (!is_empty) store(statistics, &min, 1, &max, 1);
}

bool less(Text a, Text b) {
  const int order = std::memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
  return order != 0 ? order < 0 : a.size < b.size;
}

struct TextRange {
  Text min{nullptr, 0}, max{nullptr, 0};
  void take(Text text) {
    if (min.data == nullptr) min = max = text;
    else if (less(text, min)) min = text;
    else if (less(max, text)) max = text;
  }
};

void text_range(Statistics& statistics, const Column& column, size_t from, size_t to, const Dictionary* dictionary) {
  TextRange range;
  if (dictionary != nullptr)
    for (const Text text : dictionary->values) range.take(text);
  else
    for (size_t row = from; row < to; row++)
      if (column.has(row)) range.take(column.text(row));
  if (range.min.data == nullptr) return;
  store(statistics, range.min.data, range.min.size, range.max.data, range.max.size);
}

}  // namespace

uint64_t count_nulls(const Column& column, size_t from, size_t to) {
  if (column.validity == nullptr) return 0;
  uint64_t valid = 0;
  size_t row = from;  // a multiple of eight
  for (; row + 8 <= to; row += 8) valid += static_cast<uint64_t>(__builtin_popcount(column.validity[row >> 3]));
  for (; row < to; row++) valid += column.has(row);
  return to - from - valid;
}

void put_range(Statistics& statistics, const Column& column, size_t from, size_t to, const Dictionary* dictionary) {
  switch (column.type) {
    case BOOLEAN: return boolean_range(statistics, column, from, to);
    case FLOAT: return number_range<float, float>(statistics, column, from, to);
    case DOUBLE: return number_range<double, double>(statistics, column, from, to);
    case INT8: return number_range<int8_t, int32_t>(statistics, column, from, to);
    case INT16: return number_range<int16_t, int32_t>(statistics, column, from, to);
    case INT32: case DATE: return number_range<int32_t, int32_t>(statistics, column, from, to);
    case INT64: case TIMESTAMP: return number_range<int64_t, int64_t>(statistics, column, from, to);
    case STRING: case JSON: return text_range(statistics, column, from, to, dictionary);
  }
}

}  // namespace parquet
