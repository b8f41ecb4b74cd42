/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices each rank may choose from: those its process holds (a fact), those the job names, or every usable set
 * of the kind and number it asks for. What cannot be (no such device, too few, failed ones) becomes a cause.
 */
#pragma once

#include "policy/problems/placement.h"

int device_sets_make(Placement *p);
