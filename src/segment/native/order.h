// The order of a seal's keys: by key, then sequence, then row, so that of equal keys the last one is the winner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace segment {

struct Key {
  const uint8_t* bytes;
  uint32_t length;
  bool is_delete;
  double sequence;
};

// One row's key. The first 16 bytes stand in the item as numbers, zeros behind a shorter key, so that most comparisons
// touch nothing else.
struct Item {
  uint64_t high, low;
  uint32_t row;
};

constexpr uint32_t ITEM_BYTES = 16;

// Below 0, 0, above 0. A key is before those that go on behind it.
inline int compare_keys(const Item& a, const Item& b, const std::vector<Key>& keys) {
  if (a.high != b.high) return a.high < b.high ? -1 : 1;
  if (a.low != b.low) return a.low < b.low ? -1 : 1;
  const Key &x = keys[a.row], &y = keys[b.row];
  const uint32_t common = x.length < y.length ? x.length : y.length;
  if (common > ITEM_BYTES) {
    const int order = std::memcmp(x.bytes + ITEM_BYTES, y.bytes + ITEM_BYTES, common - ITEM_BYTES);
    if (order != 0) return order;
  }
  return x.length < y.length ? -1 : x.length > y.length ? 1 : 0;
}

// Sorts items, which come in the order of their rows. Fast where they come as runs that ascend, as a producer's requests do.
void sort_items(std::vector<Item>& items, const std::vector<Key>& keys);

}  // namespace segment
