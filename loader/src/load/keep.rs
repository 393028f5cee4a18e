//! Images that processes keep for each other, wherever they lie.

use crate::link::image::Image;

/// The place of one image.
pub(crate) trait Keep {
    /// Returns the image, if it is there.
    fn find(&self) -> Option<Image>;
    /// Keeps an image whose text was verified as it runs.
    fn keep(&self, image: &mut Image);
}
