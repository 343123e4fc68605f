// The distinct texts of a chunk. Gives up early where they are many: then the rows are stored as they are. The hash is
// not a secret; whoever makes collisions only loses the dictionary, because the search for a value is bounded.
#include "parquet.h"

namespace parquet {

namespace {

constexpr size_t SLOTS = 1 << 15;  // more than twice as many as values: each takes at least 4 of DICTIONARY_BYTES
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

// The index of `text`, which is added where it is new; NONE where there is no more room.
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
