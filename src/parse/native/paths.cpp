// Builds the path tree, once per schema.
#include "paths.h"

#include <algorithm>

namespace weir {

Paths::Paths(const PoolSchema& schema) {
  nodes_.emplace_back();  // the event itself
  for (const SchemaColumn& column : schema.columns) {
    whole_.push_back(child(0, column.property));
    int32_t at = 0;
    for (size_t from = 0;;) {
      size_t dot = column.property.find('.', from);
      at = child(at, column.property.substr(from, dot == std::string::npos ? dot : dot - from));
      if (dot == std::string::npos) break;
      from = dot + 1;
    }
    path_.push_back(at);
  }
  for (PathNode& node : nodes_) {
    if (node.children_.empty()) continue;
    size_t size = 2;
    while (size < 2 * node.children_.size()) size *= 2;
    node.table_.resize(size);
    node.mask_ = static_cast<uint32_t>(size - 1);
    for (const PathChild& child : node.children_) {
      uint32_t at = key_hash(child.head, child.tail, child.bytes) & node.mask_;
      while (node.table_[at].node >= 0) at = (at + 1) & node.mask_;
      node.table_[at] = child;
      node.lengths_ |= uint64_t{1} << std::min<uint32_t>(child.bytes, 63);
    }
  }
}

size_t Paths::bytes() const {
  size_t bytes = nodes_.capacity() * sizeof(PathNode) + (whole_.capacity() + path_.capacity()) * sizeof(int32_t);
  for (const PathNode& node : nodes_)
    bytes += (node.children_.capacity() + node.table_.capacity()) * sizeof(PathChild);
  for (const std::unique_ptr<std::string>& name : names_) bytes += sizeof(std::string) + name->capacity();
  return bytes;
}

// The node under `of` with this name, made if it is not there.
int32_t Paths::child(int32_t of, const std::string& name) {
  for (const PathChild& have : nodes_[of].children_)
    if (have.bytes == name.size() && std::memcmp(have.name, name.data(), name.size()) == 0) return have.node;
  // Names are read 8 bytes at a time, so each has 8 spare bytes behind it.
  names_.push_back(std::make_unique<std::string>(name + std::string(8, '\0')));
  PathChild made;
  made.bytes = static_cast<uint32_t>(name.size());
  made.name = names_.back()->data();
  key_words({made.name, made.bytes}, &made.head, &made.tail);
  made.node = static_cast<int32_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[of].children_.push_back(made);
  return made.node;
}

}  // namespace weir
