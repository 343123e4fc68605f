// A growing buffer without the costs of std::vector: no zero fill, no exception. The process ends
// where memory ends: a part of a batch must never be taken for the whole.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace weir {

template <typename T>
struct Buffer {
  T* data = nullptr;
  size_t size = 0;
  size_t capacity = 0;

  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data(other.data), size(other.size), capacity(other.capacity) {
    other.data = nullptr;
    other.size = other.capacity = 0;
  }
  ~Buffer() { std::free(data); }

  // Makes room for `count` elements in all. The capacity doubles.
  void reserve(size_t count) {
    if (count <= capacity) return;
    size_t wanted = capacity < 64 ? 64 : 2 * capacity;
    if (wanted < count) wanted = count;
    void* grown = std::realloc(data, wanted * sizeof(T));
    if (grown == nullptr) std::abort();
    data = static_cast<T*>(grown);
    capacity = wanted;
  }

  void push(T value) {
    reserve(size + 1);
    data[size++] = value;
  }

  // Appends `count` elements; `from` may be null where `count` is 0.
  void append(const T* from, size_t count) {
    reserve(size + count);
    if (count != 0) std::memcpy(data + size, from, count * sizeof(T));
    size += count;
  }
};

}  // namespace weir
