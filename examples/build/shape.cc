// The plugin's part in C++. A virtual call gives it tables to rewrite.
namespace {

struct Shape {
    virtual int area() const = 0;
};

struct Rectangle : Shape {
    int width, height;
    Rectangle(int w, int h) : width(w), height(h) {}
    int area() const override { return width * height; }
};

__attribute__((noinline)) int measure(const Shape &shape) { return shape.area(); }

} // namespace

extern "C" int area(int width, int height) { return measure(Rectangle(width, height)); }
