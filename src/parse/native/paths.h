// The jsonProperty paths of a schema as one tree, so that an event's keys are each looked up once.
#pragma once
#include <string>
#include <vector>

#include "document.h"
#include "schema.h"

namespace weir {

// A name under a node. `head` and `tail` are its first and last 8 bytes (for shorter ones: all of
// it, twice): together with the length they are the whole name up to 16 bytes.
struct PathChild {
  uint64_t head = 0, tail = 0;
  uint32_t bytes = 0;
  int32_t node = -1;  // -1: an empty place of the table
  const char* name = nullptr;
};

class PathNode {
 public:
  bool leaf() const { return table_.empty(); }

  // The node under the key `key`, or -1.
  inline int32_t find(Text key) const;

 private:
  friend class Paths;
  std::vector<PathChild> children_;
  std::vector<PathChild> table_;  // open addressing, a power of two, at least half of it empty
  uint64_t lengths_ = 0;          // bit n: a child of n bytes; bit 63: of 63 or more
  uint32_t mask_ = 0;
};

// The tree of all columns. A column `a.b` has two nodes: that of the path a → b through objects,
// and that of the top-level key "a.b", which wins by being present.
class Paths {
 public:
  explicit Paths(const PoolSchema& schema);

  const PathNode& node(int32_t index) const { return nodes_[index]; }
  size_t size() const { return nodes_.size(); }
  // Bytes of the tree, about.
  size_t bytes() const;
  int32_t whole(size_t column) const { return whole_[column]; }
  int32_t path(size_t column) const { return path_[column]; }

  // Calls `visit` with every node below `index`.
  template <typename Visit>
  void below(int32_t index, Visit visit) const {
    for (const PathChild& child : nodes_[index].children_) {
      visit(child.node);
      below(child.node, visit);
    }
  }

 private:
  int32_t child(int32_t of, const std::string& name);

  std::vector<PathNode> nodes_;
  std::vector<std::unique_ptr<std::string>> names_;  // PathChild::name points into them
  std::vector<int32_t> whole_, path_;
};

// A key's `head` and `tail`. 8 bytes can be read at its start whatever its length (Text).
inline void key_words(Text key, uint64_t* head, uint64_t* tail) {
  std::memcpy(head, key.data, 8);
  if (key.bytes >= 8) {
    std::memcpy(tail, key.data + key.bytes - 8, 8);
    return;
  }
  // Only the first bytes count; this and every machine simdjson dispatches to is little-endian.
  *head &= (uint64_t{1} << (8 * key.bytes)) - 1;
  *tail = *head;
}

inline uint32_t key_hash(uint64_t head, uint64_t tail, uint32_t bytes) {
  uint64_t mixed = (head ^ (tail * 0x9e3779b97f4a7c15ull) ^ bytes) * 0xff51afd7ed558ccdull;
  return static_cast<uint32_t>(mixed >> 32);
}

inline int32_t PathNode::find(Text key) const {
  if ((lengths_ >> (key.bytes < 63 ? key.bytes : 63) & 1) == 0) return -1;
  uint64_t head, tail;
  key_words(key, &head, &tail);
  for (uint32_t at = key_hash(head, tail, key.bytes) & mask_;; at = (at + 1) & mask_) {
    const PathChild& child = table_[at];
    if (child.node < 0) return -1;
    if (child.head == head && child.tail == tail && child.bytes == key.bytes &&
        (key.bytes <= 16 || std::memcmp(child.name, key.data, key.bytes) == 0))
      return child.node;
  }
}

}  // namespace weir
