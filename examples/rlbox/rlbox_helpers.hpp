// In place of RLBox's header of this name, if the viewer is built without RLBox.
#include "tainted.hpp"
