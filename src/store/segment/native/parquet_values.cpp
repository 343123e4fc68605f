// Scans of a column chunk before its pages are written: nulls, smallest and largest value, distinct
// texts.
#include <cmath>
#include <type_traits>

#include "parquet.h"

namespace parquet {

// Statistics. Parquet's rules for floating point: a chunk with a value that is not a number has no
// smallest and largest value, and a zero is stored as -0 where it is the smallest and as +0 where
// it is the largest.

namespace {

void store(Statistics& statistics, const void* min, size_t min_size, const void* max, size_t max_size) {
  if (min_size > STATISTICS_BYTES || max_size > STATISTICS_BYTES) return;
  if (min_size > 0) std::memcpy(statistics.min, min, min_size);
  if (max_size > 0) std::memcpy(statistics.max, max, max_size);
  statistics.min_size = static_cast<uint8_t>(min_size);
  statistics.max_size = static_cast<uint8_t>(max_size);
  statistics.has_min_max = true;
}

// `Stored` is the physical type.
template <class Value, class Stored>
void number_min_max(Statistics& statistics, const Column& column, size_t from, size_t to) {
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

void boolean_min_max(Statistics& statistics, const Column& column, size_t from, size_t to) {
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

struct TextMinMax {
  Text min{nullptr, 0}, max{nullptr, 0};
  void take(Text text) {
    if (min.data == nullptr) min = max = text;
    else if (less(text, min)) min = text;
    else if (less(max, text)) max = text;
  }
};

void text_min_max(Statistics& statistics, const Column& column, size_t from, size_t to, const Dictionary* dictionary) {
  TextMinMax range;
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

void put_min_max(Statistics& statistics, const Column& column, size_t from, size_t to, const Dictionary* dictionary) {
  switch (column.type) {
    case BOOLEAN: return boolean_min_max(statistics, column, from, to);
    case FLOAT: return number_min_max<float, float>(statistics, column, from, to);
    case DOUBLE: return number_min_max<double, double>(statistics, column, from, to);
    case INT8: return number_min_max<int8_t, int32_t>(statistics, column, from, to);
    case INT16: return number_min_max<int16_t, int32_t>(statistics, column, from, to);
    case INT32: case DATE: return number_min_max<int32_t, int32_t>(statistics, column, from, to);
    case INT64: case TIMESTAMP: return number_min_max<int64_t, int64_t>(statistics, column, from, to);
    case STRING: case JSON: return text_min_max(statistics, column, from, to, dictionary);
  }
}

// Dictionary. It stops early when there are many texts; then the rows are stored without one. The
// hash is not a secret: a client that makes collisions only loses the dictionary, because the
// search for a value is bounded.

namespace {

// More than twice as many as values: each value takes at least 4 of DICTIONARY_BYTES.
constexpr size_t SLOTS = 1 << 15;
constexpr size_t STEPS_MAX = 128;
constexpr uint32_t NONE = UINT32_MAX;

uint64_t mixed(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <class Word>
uint64_t load(const uint8_t* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  return word;
}

uint32_t hash_of(Text text) {
  constexpr uint64_t K1 = 0x9e3779b97f4a7c15, K2 = 0xe7037ed1a0b428db;
  const uint8_t* at = text.data;
  uint64_t hash = text.size * K1;
  size_t left = text.size;
  for (; left > 8; left -= 8, at += 8) hash = mixed(hash ^ load<uint64_t>(at), K2);
  uint64_t rest = 0;
  if (left == 8) rest = load<uint64_t>(at);
  else if (left >= 4) rest = load<uint32_t>(at) | load<uint32_t>(at + left - 4) << 32;
  else if (left > 0) rest = at[0] | uint64_t{at[left / 2]} << 8 | uint64_t{at[left - 1]} << 16;
  hash = mixed(hash ^ rest, K2);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

bool equal(Text a, Text b) { return a.size == b.size && std::memcmp(a.data, b.data, a.size) == 0; }

}  // namespace

// The index of `text`, which is added if it is new; NONE when there is no more room.
uint32_t Dictionary::find(Text text, size_t values_max) {
  const uint32_t hash = hash_of(text);
  for (size_t step = 0, s = hash % SLOTS; step < STEPS_MAX; step++, s = (s + 1) % SLOTS) {
    Slot& slot = slots_[s];
    if (slot.entry == 0) {
      if (values.size() >= values_max || bytes + 4 + text.size > DICTIONARY_BYTES) return NONE;
      values.push_back(text);
      bytes += 4 + text.size;
      slot = {hash, static_cast<uint32_t>(values.size())};
      return slot.entry - 1;
    }
    if (slot.hash == hash && equal(values[slot.entry - 1], text)) return slot.entry - 1;
  }
  return NONE;
}

bool Dictionary::build(const Column& column, size_t from, size_t to) {
  slots_.assign(SLOTS, {0, 0});
  values.clear();
  indexes.clear();
  indexes.reserve(to - from);
  bytes = 0;
  const size_t values_max = (to - from) / 4;
  for (size_t row = from; row < to; row++) {
    if (!column.has(row)) continue;
    const Text text = column.text(row);
    if (text.size > DICTIONARY_BYTES) return false;
    if (!indexes.empty() && equal(values[indexes.back()], text)) {
      indexes.push_back(indexes.back());
      continue;
    }
    const uint32_t index = find(text, values_max);
    if (index == NONE) return false;
    indexes.push_back(static_cast<uint16_t>(index));
  }
  return !values.empty();
}

}  // namespace parquet
